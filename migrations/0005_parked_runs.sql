-- Open runs in which nothing is under way, and which the server therefore keeps on disk only [ARCH-11]. A parked run has
-- a snapshot of its last event; what it needs beside that is when it wakes up by itself (0 for never).

ALTER TABLE runs ADD COLUMN parked INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN wakes_at INTEGER NOT NULL DEFAULT 0;

-- What a restart reads: it has the size of what is at work, not of what is open.
DROP INDEX runs_open;
CREATE INDEX runs_active ON runs (stream_id) WHERE closed_at = 0 AND parked = 0;

-- In the order in which they wake up.
CREATE INDEX runs_parked ON runs (wakes_at) WHERE parked = 1;

-- Children whose end a parked run waits for, to be told when one of them ends.
CREATE TABLE parked_waits (
    stream_id         INTEGER NOT NULL,
    run_id            TEXT    NOT NULL,
    step_execution_id TEXT    NOT NULL,
    number            INTEGER NOT NULL,
    child_flow_id     TEXT    NOT NULL,
    execution_id      TEXT    NOT NULL,
    PRIMARY KEY (stream_id, step_execution_id, number)
) STRICT, WITHOUT ROWID;

CREATE INDEX parked_waits_by_child ON parked_waits (child_flow_id);

-- What a start was asked with, to find the execution of a repeated request [START-3], and when open runs wake up by
-- themselves [ARCH-10].

ALTER TABLE runs ADD COLUMN start_request_id TEXT NOT NULL DEFAULT '';

-- First executions are found through runs_by_flow, so that only Flow IDs that are started again pay for this one.
CREATE INDEX runs_by_start ON runs (flow_id, start_request_id) WHERE ordinal > 1;

-- Timers of Waits and retries that are not due yet; a Step execution has one row at most.
CREATE TABLE pending_timers (
    stream_id         INTEGER NOT NULL,
    step_execution_id TEXT    NOT NULL,
    at                INTEGER NOT NULL,
    PRIMARY KEY (stream_id, step_execution_id)
) STRICT, WITHOUT ROWID;

-- Which form of the projections the rows are in; a server that writes another one first makes them anew from the
-- events.
CREATE TABLE projections (
    id      INTEGER PRIMARY KEY CHECK (id = 1),
    version INTEGER NOT NULL
) STRICT;

INSERT INTO projections (id, version) VALUES (1, 0);

CREATE VIEW timers AS
SELECT
    runs.flow_id,
    runs.run_id,
    pending_timers.step_execution_id,
    strftime('%Y-%m-%d %H:%M:%f', pending_timers.at / 1000.0, 'unixepoch') AS at
FROM pending_timers
JOIN runs ON runs.stream_id = pending_timers.stream_id;

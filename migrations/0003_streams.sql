-- Streams of the log that belong to something else than a run, as a schedule [ARCH-10, SCHED-1].

CREATE TABLE streams (
    stream_id  INTEGER PRIMARY KEY,
    kind       TEXT    NOT NULL, -- 'schedule'
    name       TEXT    NOT NULL, -- what clients call it; another one may have it once this is closed
    status     INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    is_closed  INTEGER NOT NULL  -- 1 when nothing happens to it any more
) STRICT;

CREATE INDEX streams_by_name ON streams (kind, name, stream_id);

-- What a restart reads; a name is taken by one open stream of a kind at most.
CREATE UNIQUE INDEX streams_open ON streams (stream_id) WHERE NOT is_closed;
CREATE UNIQUE INDEX streams_open_names ON streams (kind, name) WHERE NOT is_closed;

CREATE VIEW schedules AS
SELECT
    name AS schedule_id,
    CASE status
        WHEN 1 THEN 'ACTIVE'
        WHEN 2 THEN 'PAUSED'
        WHEN 3 THEN 'DELETED'
        ELSE CAST(status AS TEXT)
    END AS status,
    strftime('%Y-%m-%d %H:%M:%f', created_at / 1000.0, 'unixepoch') AS created_at,
    stream_id
FROM streams
WHERE kind = 'schedule';

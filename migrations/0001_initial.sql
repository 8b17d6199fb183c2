-- The log of one partition, and what is derived from it in the same transaction [ARCH-10, ARCH-15].
-- Instants are milliseconds since the epoch in UTC; payloads are MessagePack, written and read by dexd.codec only.

CREATE TABLE events (
    seq          INTEGER PRIMARY KEY,
    stream_id    INTEGER NOT NULL,
    version      INTEGER NOT NULL,
    at           INTEGER NOT NULL,
    type         TEXT    NOT NULL,
    type_version INTEGER NOT NULL,
    payload      BLOB    NOT NULL
) STRICT;

-- The only index: every further one is paid with every event.
CREATE UNIQUE INDEX events_by_stream ON events (stream_id, version);

CREATE TABLE runs (
    stream_id     INTEGER PRIMARY KEY,
    run_id        TEXT    NOT NULL UNIQUE,
    flow_id       TEXT    NOT NULL,
    ordinal       INTEGER NOT NULL,
    flow_type     TEXT    NOT NULL,
    status        INTEGER NOT NULL,
    started_at    INTEGER NOT NULL,
    closed_at     INTEGER NOT NULL, -- 0 while the run is open
    error_type    INTEGER NOT NULL,
    error_message TEXT    NOT NULL
) STRICT;

CREATE INDEX runs_by_flow ON runs (flow_id, ordinal);

-- What a restart reads; it has the size of what is open, not of what ever ran.
CREATE INDEX runs_open ON runs (stream_id) WHERE closed_at = 0;

CREATE TABLE snapshots (
    stream_id     INTEGER PRIMARY KEY,
    version       INTEGER NOT NULL,
    state_version INTEGER NOT NULL,
    payload       BLOB    NOT NULL
) STRICT;

-- One row, written when it must be known whether the log can be written at all.
CREATE TABLE probe (
    id     INTEGER PRIMARY KEY CHECK (id = 1),
    writes INTEGER NOT NULL
) STRICT;

INSERT INTO probe (id, writes) VALUES (1, 0);

-- For people with nothing but a SQLite shell:
--   SELECT * FROM flows WHERE status = 'RUNNING';
--   SELECT * FROM history WHERE flow_id = 'order-4711' ORDER BY seq;

CREATE VIEW flows AS
SELECT
    flow_id,
    run_id,
    ordinal,
    flow_type,
    CASE status
        WHEN 1 THEN 'RUNNING'
        WHEN 2 THEN 'COMPLETED'
        WHEN 3 THEN 'FAILED'
        WHEN 4 THEN 'CANCELED'
        WHEN 5 THEN 'TERMINATED'
        ELSE CAST(status AS TEXT)
    END AS status,
    strftime('%Y-%m-%d %H:%M:%f', started_at / 1000.0, 'unixepoch') AS started_at,
    CASE WHEN closed_at != 0 THEN strftime('%Y-%m-%d %H:%M:%f', closed_at / 1000.0, 'unixepoch') END AS closed_at,
    error_message,
    stream_id
FROM runs;

CREATE VIEW history AS
SELECT
    runs.flow_id,
    runs.run_id,
    events.version AS event_id,
    strftime('%Y-%m-%d %H:%M:%f', events.at / 1000.0, 'unixepoch') AS at,
    events.type AS kind,
    events.type_version,
    length(events.payload) AS payload_bytes,
    events.seq
FROM events
JOIN runs ON runs.stream_id = events.stream_id;

-- Runs leave the log after their retention [KEEP-1], Flow IDs keep their last ordinal beyond that [ID-10].

-- What a look for due runs reads; runs close in the order of time, so the end of this index is where it grows.
CREATE INDEX runs_closed ON runs (closed_at, stream_id) WHERE closed_at != 0;

-- Streams of runs that are gone already, whose events are deleted little by little.
CREATE TABLE removals (
    stream_id INTEGER PRIMARY KEY
) STRICT;

-- Where the log ended when something was last taken out of it or put into it from elsewhere: numbers never go back.
CREATE TABLE log_end (
    id             INTEGER PRIMARY KEY CHECK (id = 1),
    last_seq       INTEGER NOT NULL,
    last_stream_id INTEGER NOT NULL,
    last_at        INTEGER NOT NULL,
    removed_events INTEGER NOT NULL -- how many numbers up to the end are missing
) STRICT;

INSERT INTO log_end (id, last_seq, last_stream_id, last_at, removed_events) VALUES (1, 0, 0, 0, 0);

-- Flow IDs without any run, and the ordinal of their last execution.
CREATE TABLE ordinals (
    flow_id    TEXT    PRIMARY KEY,
    ordinal    INTEGER NOT NULL,
    expires_at INTEGER NOT NULL -- 0 never
) STRICT, WITHOUT ROWID;

CREATE INDEX ordinals_expiring ON ordinals (expires_at) WHERE expires_at != 0;

-- Streams that were imported from another log: their instants are of that one.
CREATE TABLE imports (
    stream_id INTEGER PRIMARY KEY
) STRICT;

-- Schedules and jobs leave the log after their retention, as runs do [KEEP-1].

ALTER TABLE streams ADD COLUMN closed_at INTEGER NOT NULL DEFAULT 0; -- since when nothing happens to it; 0 while it may

-- So the last event of a closed one is that which closed it.
UPDATE streams SET closed_at = coalesce(
    (SELECT at FROM events WHERE events.stream_id = streams.stream_id ORDER BY version DESC LIMIT 1),
    created_at
)
WHERE is_closed;

-- What a look for due streams reads.
CREATE INDEX streams_closed ON streams (closed_at, stream_id) WHERE closed_at != 0;

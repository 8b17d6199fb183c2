-- Runs that continue others: which run began the execution, and which the chain that roll-over joins [ROLL-2].
-- Empty when the run itself did.

ALTER TABLE runs ADD COLUMN first_run_id TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN chain_id TEXT NOT NULL DEFAULT '';

-- Only runs that continue others pay for it.
CREATE INDEX runs_by_chain ON runs (chain_id, stream_id) WHERE chain_id != '';

-- All runs, as before; an execution is its newest run, and CONTINUED_AS_NEW is never the status of one.
DROP VIEW flows;

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
        WHEN 6 THEN 'CONTINUED_AS_NEW'
        ELSE CAST(status AS TEXT)
    END AS status,
    strftime('%Y-%m-%d %H:%M:%f', started_at / 1000.0, 'unixepoch') AS started_at,
    CASE WHEN closed_at != 0 THEN strftime('%Y-%m-%d %H:%M:%f', closed_at / 1000.0, 'unixepoch') END AS closed_at,
    error_message,
    CASE WHEN first_run_id = '' THEN run_id ELSE first_run_id END AS first_run_id,
    stream_id
FROM runs;

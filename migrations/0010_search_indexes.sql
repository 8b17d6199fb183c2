-- Indexes with which the first page of a search costs what it shows, not what is in the log [SEARCH-7, SEARCH-8].

-- One for FlowType, Status, both, and counts of them, in the place of three: a Flow that outlives the commit of its
-- start pays as before, one that does not complete pays less.
DROP INDEX runs_by_type;
DROP INDEX runs_running;
DROP INDEX runs_not_completed;
CREATE INDEX runs_by_type ON runs (flow_type, status, started_at DESC, flow_id) WHERE superseded = 0;

-- Only children, what a schedule began, and what has failed pay for these.
CREATE INDEX runs_by_parent ON runs (parent_flow_id, started_at DESC, flow_id)
WHERE superseded = 0 AND parent_flow_id != '';
CREATE INDEX runs_by_schedule ON runs (schedule_id, started_at DESC, flow_id)
WHERE superseded = 0 AND schedule_id != '';
CREATE INDEX runs_with_error ON runs (started_at DESC, flow_id) WHERE superseded = 0 AND last_error != '';

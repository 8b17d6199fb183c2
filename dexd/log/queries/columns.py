"""Columns that statements about several tables name, in the order of the fields of their rows."""

RUN = (
    "stream_id, run_id, flow_id, ordinal, flow_type, status, started_at, closed_at, error_type, error_message, "
    "start_request_id, first_run_id, chain_id, parent_flow_id, schedule_id, last_error"
)

SNAPSHOT = "stream_id, version, state_version, payload"

"""The rows of the bare pipeline: as many per Flow as the product writes, with payloads of about the same size."""

import itertools
import time

import msgspec

from dexpb.v1 import frames

Row = tuple[int, int, int, int, str, int, bytes]
"""Sequence, stream, version in the stream, instant, type, type version, payload: the columns of the event table."""

DIGEST = bytes(32)
"""Stands for the digest of a start request."""

SEED = 2**62
"""Stands for the random seed of a run."""

STEP_TIMEOUT_MS = 7_200_000
"""The product's default method timeout, for a deadline of the usual size."""

encode = msgspec.msgpack.Encoder().encode


class FlowStarted(msgspec.Struct, array_like=True, frozen=True, gc=False):
    flow_id: str
    run_id: str
    flow_type: str
    ordinal: int
    request_id: str
    digest: bytes
    seed: int


class StepScheduled(msgspec.Struct, array_like=True, frozen=True, gc=False):
    step_execution_id: str
    step_type: str
    number: int
    from_step: str
    input: bytes
    has_wait_for: bool


class StepDispatched(msgspec.Struct, array_like=True, frozen=True, gc=False):
    step_execution_id: str
    method: int
    attempt: int
    delivery: int
    worker_id: str
    incarnation: str
    is_sticky: bool
    waited_ms: int
    deadline: int


class ExecuteCompleted(msgspec.Struct, array_like=True, frozen=True, gc=False):
    step_execution_id: str
    attempt: int
    delivery: int
    worker_id: str
    decision: int
    output: bytes


class FlowClosed(msgspec.Struct, array_like=True, frozen=True, gc=False):
    status: int
    error_type: int
    error_message: str


class Flow:
    """What must be remembered of an open Flow to write its rows."""

    __slots__ = ("flow_id", "flow_type", "run_id", "started_at", "step_count", "stream_id", "version")

    def __init__(self, flow_id: str, flow_type: str, stream_id: int) -> None:
        self.flow_id = flow_id
        self.flow_type = flow_type
        self.run_id = f"{stream_id:032x}"
        self.stream_id = stream_id
        self.started_at = time.time_ns() // 1_000_000
        self.version = 0
        self.step_count = 0


class Scribe:
    """Writes the rows of Flows, and the assignments that follow from them."""

    def __init__(self, worker_id: str, incarnation: str) -> None:
        self._worker_id = worker_id
        self._incarnation = incarnation
        self._seq = itertools.count(1)
        self._stream_ids = itertools.count(1)

    def start(self, flow_id: str, flow_type: str, request_id: str) -> tuple[Flow, list[Row]]:
        """A new Flow and the first row of its history."""
        flow = Flow(flow_id, flow_type, next(self._stream_ids))
        started = FlowStarted(flow_id, flow.run_id, flow_type, 1, request_id, DIGEST, SEED)
        return flow, [self._row(flow, "FlowStarted", started)]

    def dispatch(self, flow: Flow, step_type: str, value: bytes, from_step: str, rows: list[Row]) -> frames.Assign:
        """Adds the rows of the next Step, scheduled and dispatched at once, and returns its assignment."""
        flow.step_count += 1
        call = f"{step_type}-{flow.step_count}"
        scheduled = StepScheduled(call, step_type, flow.step_count, from_step, value, False)
        rows.append(self._row(flow, "StepScheduled", scheduled))
        now = rows[-1][3]
        deadline = now + STEP_TIMEOUT_MS
        dispatched = StepDispatched(
            call, frames.METHOD_EXECUTE, 1, 1, self._worker_id, self._incarnation, True, 0, deadline
        )
        rows.append(self._row(flow, "StepDispatched", dispatched))
        return frames.Assign(
            stream=1,
            token=frames.Token(flow.run_id, call, frames.METHOD_EXECUTE, 1, 1),
            flow_id=flow.flow_id,
            flow_type=flow.flow_type,
            name=step_type,
            input=value,
            ordinal=1,
            flow_started_at=flow.started_at,
            first_attempt_at=now,
            deadline=deadline,
            from_step=from_step,
        )

    def complete(self, flow: Flow, token: frames.Token, decision: frames.Decision) -> list[Row]:
        """The first row that a Step's result leads to."""
        completed = ExecuteCompleted(
            token.call, token.attempt, token.delivery, self._worker_id, decision.kind, decision.output
        )
        return [self._row(flow, "ExecuteCompleted", completed)]

    def close(self, flow: Flow, rows: list[Row]) -> None:
        """Adds the last row of a Flow."""
        rows.append(self._row(flow, "FlowClosed", FlowClosed(1, 0, "")))

    def _row(self, flow: Flow, kind: str, fact: msgspec.Struct) -> Row:
        flow.version += 1
        at = time.time_ns() // 1_000_000
        return (next(self._seq), flow.stream_id, flow.version, at, kind, 1, encode(fact))

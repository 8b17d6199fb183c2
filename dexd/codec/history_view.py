"""A run's history as people and programs read it [HIST-2..4]: GetHistory, `dex log` and the command line show this.

Every event becomes its kind and a JSON object. The result of a Step method also shows what the method worked on: an
input block, an output block and a context block [HIST-4]. What these hold lies in earlier events, so a view folds the
run along while it goes through the events from the first one on.
"""

from typing import TypeAlias

import msgspec

from dexd.codec.effective_options import effective_options
from dexd.codec.json_parts import Json, show_field, show_result, show_struct, show_value
from dexd.codec.live_step_view import show_last_failure
from dexd.codec.views import HistoryEntry
from dexd.core import events as e
from dexd.core.config import KernelConfig
from dexd.core.flow.carrying import from_carried
from dexd.core.flow.durability import durability_of
from dexd.core.flow.evolve import evolve
from dexd.core.flow.state import RunState, StepExecution, StepPhase
from dexd.core.ids import StepExecutionId
from dexd.core.outcome import RecordedEvent

MethodResult: TypeAlias = e.WaitForCompleted | e.WaitForFailed | e.ExecuteCompleted | e.ExecuteFailed

DeliveryEnd: TypeAlias = e.StepDeliveryLost | e.StepDeclined | e.StepCanceled | e.MethodPending
"""Events that may end a delivery without a result."""

_encoder = msgspec.json.Encoder()


class HistoryView:
    """Shows the events of one run; hand it every event in order from the first."""

    __slots__ = ("_config", "_run", "_snapshot_versions")

    def __init__(self, config: KernelConfig) -> None:
        """`config` gives the defaults that Step options leave open."""
        self._config = config
        self._run: RunState | None = None
        self._snapshot_versions: dict[StepExecutionId, int] = {}

    def show(self, recorded: RecordedEvent) -> HistoryEntry:
        """Show the next event."""
        event = recorded.event
        shown = self._fields(recorded)
        # A Step's result ends its execution, so the blocks are made before the event is folded.
        if isinstance(event, MethodResult):
            shown.update(self._blocks(event, recorded.at))
        elif isinstance(event, DeliveryEnd):
            shown.update(self._delivery(event, recorded.at))
        self.skip(recorded)
        assert self._run is not None
        data = _encoder.encode(shown)
        return HistoryEntry(recorded.version, self._run.run_id, recorded.at, type(event).__name__, data)

    def skip(self, recorded: RecordedEvent) -> None:
        """Take note of the next event without showing it."""
        event = recorded.event
        self._run = evolve(self._run, recorded)
        if isinstance(event, e.StepDispatched):
            self._snapshot_versions[event.step_execution_id] = recorded.version
        elif isinstance(event, e.ExecuteCompleted | e.StepCanceled):
            self._snapshot_versions.pop(event.step_execution_id, None)

    def _fields(self, recorded: RecordedEvent) -> dict[str, Json]:
        event = recorded.event
        hidden = _HIDDEN.get(type(event), ())
        shown = {name: show_field(name, getattr(event, name)) for name in event.__struct_fields__ if name not in hidden}
        for name in _SHOWN_WHEN_SET.get(type(event), ()):
            if not shown[name]:
                del shown[name]
        if isinstance(event, e.StepDispatched):
            shown["queue"] = "sticky" if event.is_sticky else "type"
            # Nothing limits dispatches yet.
            shown["limits"] = []
        if isinstance(event, e.FlowContinued | e.FlowForked):
            shown["carried"] = _carried(from_carried(event.carried))
        return shown

    def _delivery(self, event: DeliveryEnd, at: int) -> dict[str, Json]:
        """Where the handler ran whose delivery ends here, and how long; nothing if none ran [HIST-3]."""
        assert self._run is not None
        step = self._run.steps[event.step_execution_id]
        if step.phase is not StepPhase.RUNNING:
            return {}
        return {
            "delivery": step.delivery,
            "worker_id": step.worker_id,
            "started_at": step.dispatched_at,
            "duration_ms": at - step.dispatched_at,
        }

    # ---- blocks of a method's result [HIST-4] ----

    def _blocks(self, event: MethodResult, at: int) -> dict[str, Json]:
        run = self._run
        assert run is not None
        step = run.steps[event.step_execution_id]
        return {
            "input": self._input_block(step),
            "output": _output_block(event),
            "context": self._context_block(run, step, at),
        }

    def _input_block(self, step: StepExecution) -> dict[str, Json]:
        return {
            "value": show_value(step.input),
            "results": [show_result(result) for result in step.results],
            "locals": {name: show_value(value) for name, value in step.locals.items()},
            "snapshot_version": self._snapshot_versions.get(step.step_execution_id, 0),
        }

    def _context_block(self, run: RunState, step: StepExecution, at: int) -> dict[str, Json]:
        return {
            "flow_id": run.flow_id,
            "run_id": run.run_id,
            "ordinal": run.ordinal,
            "flow_type": run.flow_type,
            "step_type": step.step_type,
            "from_step": step.from_step,
            "method": step.method.name,
            "durability": durability_of(run, step, self._config.step_durability).name,
            "options": effective_options(run, step, self._config),
            "first_attempt_at": step.first_attempt_at,
            **_times(step, at),
            "last_failure": show_last_failure(step),
            "recovery_error": None if step.recovery_error is None else show_struct(step.recovery_error),
        }


def _times(step: StepExecution, at: int) -> dict[str, Json]:
    """Which worker had the attempt, and when; null for one that found none."""
    if not step.delivery:
        return {"started_at": None, "duration_ms": None, "worker_id": None}
    return {"started_at": step.dispatched_at, "duration_ms": at - step.dispatched_at, "worker_id": step.worker_id}


def _output_block(event: MethodResult) -> dict[str, Json]:
    match event:
        case e.WaitForCompleted():
            return {
                "wait": show_struct(event.wait),
                **_effects(event),
                "locals": {name: show_value(value) for name, value in event.locals},
            }
        case e.ExecuteCompleted():
            decision = {"kind": event.decision.name, "output": show_value(event.output), "reason": event.reason}
            # Only wait_for sets locals; the block has the same parts for both methods.
            return {"decision": decision, **_effects(event), "locals": {}}
        case _:
            return {"failure": show_struct(event.failure)}


def _effects(event: e.WaitForCompleted | e.ExecuteCompleted) -> dict[str, Json]:
    return {
        "writes": show_field("writes", event.writes),
        "publications": show_field("messages", event.messages),
        "recorded": show_field("recorded", event.recorded),
    }


def _carried(state: RunState) -> dict[str, Json]:
    """What a run began with, in outline: values stand in the history of the runs before."""
    steps = [
        {
            "step_execution_id": step.step_execution_id,
            "phase": step.phase.name,
            "method": step.method.name,
            "attempt": step.attempt,
        }
        for step in state.steps.values()
    ]
    return {
        "events": state.version,
        "steps": steps,
        "counters": state.counters,
        "attributes": list(state.attributes),
        "channels": {channel: len(messages) for channel, messages in state.channels.items()},
        "completions": len(state.completions),
        "requests": len(state.requests),
    }


_BLOCK_FIELDS = ("wait", "failure", "decision", "output", "reason", "writes", "messages", "locals", "recorded")
_HIDDEN: dict[type[e.Event], tuple[str, ...]] = {
    e.FlowStarted: ("digest", "seed"),
    e.FlowContinued: ("carried",),
    e.FlowForked: ("carried", "requests"),
    **dict.fromkeys((e.WaitForCompleted, e.WaitForFailed, e.ExecuteCompleted, e.ExecuteFailed), _BLOCK_FIELDS),
}
"""Fields without meaning for a reader, and those that a method's result shows in its blocks."""

_SHOWN_WHEN_SET: dict[type[e.Event], tuple[str, ...]] = {
    e.FlowStarted: ("terms", "eligible_at", "timeout_at", "indexed"),
    e.FlowContinued: ("request",),
    e.RpcCompleted: ("input", "output", "indexed"),
    e.AttributesSet: ("indexed",),
    e.ExecuteCompleted: ("indexed",),
    e.FlowClosed: ("next_run_id",),
    e.WaitForCompleted: ("sub_flows", "indexed"),
}
"""Fields of features that most Flows do not use."""

"""External writes once more, in a run that was forked before them [TT-5].

They are the same facts with the same requests, message IDs and contents. Only what counts is counted anew: numbers of
RPC calls and of the Steps that they schedule go on from the state at the point [ID-7].
"""

from collections.abc import Iterator

from msgspec.structs import replace

from dexd.core import events as e
from dexd.core.flow.messages import position_of
from dexd.core.flow.scheduling import decide_schedule
from dexd.core.flow.state import RunState
from dexd.core.forks.external_writes import RPC_SOURCE
from dexd.core.forks.plan import ExternalWrite
from dexd.core.ids import StepExecutionId
from dexd.core.values import StepPlan


class Reapplication:
    """Decides the events of one new run; each must be folded before the next one is asked for."""

    def __init__(self, run: RunState) -> None:
        """Begin with the run as it is at the point."""
        self._run = run
        self._names: dict[StepExecutionId, StepExecutionId] = {step_id: step_id for step_id in run.steps}
        """What Step executions that the writes may know are called now."""

    def events(self, write: ExternalWrite) -> Iterator[e.Event]:
        """What the write comes to now; what has nothing left to act on is left out."""
        source = self._source(write)
        for event in write.events:
            match event:
                case e.ChannelMessageDeleted():
                    yield from self._deleted(event, source)
                case e.RpcCompleted():
                    yield replace(event, number=int(source.rpartition("#")[2]))
                case e.StepCanceled():
                    target = self._names.get(event.step_execution_id)
                    if target in self._run.steps:
                        yield replace(event, step_execution_id=target, by=source)
                case e.StepScheduled():
                    yield self._scheduled(event, source)
                case _:
                    yield event

    def _source(self, write: ExternalWrite) -> str:
        """The name of the RPC call [ID-12]; empty for other writes."""
        for event in write.events:
            if type(event) is e.RpcCompleted:
                return f"{RPC_SOURCE}{event.name}#{self._run.rpc_counters.get(event.name, 0) + 1}"
        return ""

    def _deleted(self, event: e.ChannelMessageDeleted, source: str) -> Iterator[e.ChannelMessageDeleted]:
        queue = self._run.channels.get(event.channel, ())
        pending = tuple(message_id for message_id in event.message_ids if position_of(queue, message_id) is not None)
        if pending:
            yield replace(event, message_ids=pending, by=source)

    def _scheduled(self, event: e.StepScheduled, source: str) -> e.StepScheduled:
        plan = StepPlan(event.step_type, event.input, event.has_wait_for, event.options)
        [scheduled] = decide_schedule(self._run, [plan], from_step=source)
        self._names[event.step_execution_id] = scheduled.step_execution_id
        return scheduled

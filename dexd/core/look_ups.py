"""Which command needs what of the log, when what it concerns is not in memory [ARCH-11]."""

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from dexd.core import commands as c
from dexd.core.flow.state import RunState
from dexd.core.ids import FlowId, RunId
from dexd.core.jobs import commands as jc
from dexd.core.jobs.desk import JobDesk
from dexd.core.runs import Runs
from dexd.core.schedules import commands as sc
from dexd.core.schedules.desk import ScheduleDesk
from dexd.core.streams import StreamKind
from dexd.core.wanted import FiresRef, RunRef, RunRefs, StreamRef, Wanted

Way: TypeAlias = Callable[[Any], Wanted | None]
"""Says what one kind of command wants."""


class _OfFlow(Protocol):
    @property
    def flow_id(self) -> FlowId: ...


class LookUps:
    """One look at a table per command: most name nothing that could be anywhere but in memory."""

    __slots__ = ("_jobs", "_runs", "_schedules", "_ways")

    def __init__(self, runs: Runs, schedules: ScheduleDesk, jobs: JobDesk) -> None:
        self._runs = runs
        self._jobs = jobs
        self._schedules = schedules
        self._ways: dict[type[c.Command], Way] = {
            c.CompleteCall: self._of_result,
            c.FailCall: self._of_result,
            c.OpenSession: self._of_session,
            c.StartFlow: self._of_start,
            c.ReachSubFlow: self._of_child,
            c.NoteSubFlow: self._of_parent,
            sc.ReachOccurrence: self._of_occurrence,
            jc.CreateJob: self._of_job,
            jc.CancelJob: self._of_job,
            jc.ReachTarget: lambda command: command,
            **dict.fromkeys(_OF_A_FLOW, self._of_flow),
            **dict.fromkeys(_OF_A_SCHEDULE, self._of_schedule),
        }

    def wanted(self, command: c.Command) -> Wanted | None:
        """See `Kernel.wanted`."""
        way = self._ways.get(type(command))
        return None if way is None else way(command)

    def _of_result(self, command: c.CompleteCall | c.FailCall) -> RunRef | None:
        run_id = command.token.run_id
        return None if run_id in self._runs.by_chain else RunRef(run_id)

    def _of_flow(self, command: _OfFlow) -> FlowId | None:
        return None if command.flow_id in self._runs.latest else command.flow_id

    def _of_start(self, command: c.StartFlow) -> c.StartFlow | None:
        """The latest run of its Flow ID, and the earlier one that its request started, if any.

        Where there is no run any more, it and the start of a child want `note_ordinal` instead [ID-10].
        """
        latest = self._runs.latest.get(command.flow_id)
        return command if latest is None or self._may_repeat(latest, command) else None

    def _may_repeat(self, latest: RunState, command: c.StartFlow) -> bool:
        """Whether the request may have started an execution that is not in memory [START-3]."""
        return (
            latest.ordinal > 1
            and latest.start_request_id != command.request_id
            and self._runs.started_by(command.flow_id, command.request_id) is None
        )

    def _of_child(self, command: c.ReachSubFlow) -> c.ReachSubFlow | None:
        return None if command.flow_id in self._runs.latest else command

    def _of_parent(self, command: c.NoteSubFlow) -> RunRef | None:
        run_id = command.key.run_id
        return None if run_id in self._runs.by_chain else RunRef(run_id)

    def _of_session(self, command: c.OpenSession) -> RunRefs | None:
        """Runs whose results a worker presents; one that was accepted before is acknowledged [WIRE-10]."""
        run_ids: dict[RunId, None] = dict.fromkeys(running.token.run_id for running in command.running)
        missing = tuple(run_id for run_id in run_ids if run_id not in self._runs.by_chain)
        return RunRefs(missing) if missing else None

    def _of_occurrence(self, command: sc.ReachOccurrence) -> c.StartFlow | None:
        return self._of_start(command.start)

    def _of_job(self, command: jc.CreateJob | jc.CancelJob) -> StreamRef | None:
        is_known = self._jobs.get(command.job_id) is not None
        return None if is_known else StreamRef(StreamKind.JOB, command.job_id)

    def _of_schedule(self, command: sc.ScheduleCommand) -> StreamRef | FiresRef | None:
        """One that was deleted may be asked about again; of the others, the fires that are due come first."""
        schedule = self._schedules.get(command.schedule_id)
        if schedule is None:
            return StreamRef(StreamKind.SCHEDULE, command.schedule_id)
        return FiresRef(schedule.stream_id) if schedule.stream_id in self._schedules.clockwork.wanting else None


_OF_A_FLOW = (
    c.PublishMessages,
    c.SetAttribute,
    c.DeleteMessage,
    c.SkipTimer,
    c.InvokeRpc,
    c.StopFlow,
    c.UpdateFlowConfig,
    c.ContinueAsNew,
    c.TimeTravel,
    sc.StopOccurrence,
)
_OF_A_SCHEDULE = (
    sc.CreateSchedule,
    sc.UpdateSchedule,
    sc.PauseSchedule,
    sc.ResumeSchedule,
    sc.DeleteSchedule,
    sc.TriggerSchedule,
    sc.BackfillSchedule,
)

"""What follows an ASYNC result may reach workers before its commit, and nobody else [DUR-1..3]."""

from dexd.codec.flow_queries import AttributeQuery, FlowWaitQuery, RunKey
from dexd.core.effects import AcknowledgeResult, AssignCall
from dexd.core.ids import FlowId
from dexd.core.values import Decision, DecisionKind, FlowStatus, StepDurability, StepOptions, StepPlan
from dexd.engine.early_effects import COMMIT_MS_MAX, LOOK_BACK_MAX
from dexd.log.errors import LogFullError
from tests.unit.engine.rig import Answers, Rig, RigWorker, publish_command, start_command

ASYNC = StepOptions(execute_durability=StepDurability.ASYNC, wait_for_durability=StepDurability.ASYNC)
KEY = RunKey(FlowId("f"), None)


def step(name: str = "Next", options: StepOptions | None = ASYNC) -> StepPlan:
    return StepPlan(name, b"1", False, options)


async def working(options: StepOptions | None = ASYNC) -> tuple[Rig, RigWorker]:
    """A committed Flow whose first Step runs; from now on nothing commits by itself."""
    rig = Rig()
    worker = await rig.worker()
    await rig.start(start_step=step("Begin", options))
    await rig.decided()
    assert len(worker.calls) == 1
    rig.writer.is_automatic = False
    return rig, worker


async def go_on(rig: Rig, worker: RigWorker) -> None:
    """The newest call goes to another Step."""
    worker.decide(worker.calls[-1], DecisionKind.GO_TO, b"", step())
    await rig.decided()


async def test_dur_2_next_step_starts_before_the_commit_of_the_async_result() -> None:
    rig, worker = await working()
    before = len(worker.deliveries)
    await go_on(rig, worker)
    [delivery] = worker.deliveries[before:]
    assert [type(effect) for effect in delivery] == [AcknowledgeResult, AssignCall]
    assert len(rig.writer.submitted) == 1, "the commit is under way"
    batch = rig.writer.commit()
    assert [event.type for event in batch.events] == ["ExecuteCompleted", "StepScheduled", "StepDispatched"]
    assert len(worker.deliveries) == before + 1, "nothing is sent twice"


async def test_dur_2_a_chain_of_async_steps_runs_ahead_of_its_commits() -> None:
    rig, worker = await working()
    for number in range(2, 6):
        await go_on(rig, worker)
        assert len(worker.calls) == number
    assert len(rig.writer.submitted) == 1
    first, second = rig.writer.commit(), rig.writer.commit()
    assert (len(first.events), len(second.events)) == (3, 9)


async def test_dur_1_under_sync_nothing_leaves_before_the_commit() -> None:
    for options in (None, StepOptions(), StepOptions(execute_durability=StepDurability.SYNC)):
        rig, worker = await working(options)
        await go_on(rig, worker)
        assert len(worker.calls) == 1
        rig.writer.commit()
        assert len(worker.calls) == 2


async def test_dur_1_an_async_result_waits_for_a_sync_event_that_its_effects_show() -> None:
    """The snapshot of the next Step has the message, whose publication may not be seen before it is committed."""
    rig, worker = await working()
    rig.engine.request(publish_command("f", b"1"), Answers())
    await rig.decided()
    await go_on(rig, worker)
    assert len(worker.calls) == 1
    rig.writer.commit()
    rig.writer.commit()
    assert worker.calls[-1].call.channel_sizes == {"news": 1}


async def test_dur_1_calls_of_other_flows_in_the_same_outcome_wait() -> None:
    """The stream that the ASYNC result frees goes to a Flow whose start is not committed."""
    rig, worker = await working()
    rig.engine.request(start_command("g", start_step=step("Begin")), Answers())
    rig.engine.request(start_command("h", start_step=step("Begin")), Answers())
    await rig.decided()
    worker.decide(worker.calls[0], DecisionKind.DEAD_END)
    await rig.decided()
    assert [call.call.flow_id for call in worker.calls] == ["f"]
    while rig.writer.submitted:
        rig.writer.commit()
    assert [call.call.flow_id for call in worker.calls] == ["f", "g", "h"]


async def test_dur_3_clients_see_nothing_before_the_commit() -> None:
    """Reads, waits and what the result changed."""
    rig, worker = await working()
    ended, value = Answers(), Answers()
    rig.engine.reads.wait_for_flow(FlowWaitQuery(FlowId("f"), 60_000, None), ended)
    worker.complete(
        worker.calls[0],
        decision=Decision(DecisionKind.FORCE_COMPLETE, output=b"9"),
        writes=(("a", b"1"),),
    )
    await rig.decided()
    rig.engine.reads.attribute(AttributeQuery(KEY, "a"), value)
    await rig.decided()
    assert (ended.all, value.all) == ([], [])
    while rig.writer.submitted:
        rig.writer.commit()
    assert ended.only.end.status is FlowStatus.COMPLETED
    assert value.only.value == b"1"


async def test_dur_2_nothing_leaves_early_while_a_commit_takes_too_long() -> None:
    rig, worker = await working()
    await go_on(rig, worker)
    rig.clock.at += COMMIT_MS_MAX
    await go_on(rig, worker)
    assert len(worker.calls) == 3
    rig.clock.at += 1
    await go_on(rig, worker)
    assert len(worker.calls) == 3
    rig.writer.commit()
    rig.writer.commit()
    assert len(worker.calls) == 4


async def test_a_session_gets_everything_in_order() -> None:
    """What waits for a commit is not overtaken: another Flow's call is on its way to the same session."""
    rig, worker = await working()
    rig.engine.request(start_command("g", start_step=step("Begin")), Answers())
    await rig.decided()
    await go_on(rig, worker)
    assert len(worker.calls) == 1
    rig.writer.commit()
    rig.writer.commit()
    assert [call.call.token.call for call in worker.calls] == ["Begin-1", "Begin-1", "Next-1"]


async def test_dur_2_many_open_events_are_not_searched() -> None:
    rig, worker = await working()
    for number in range(2 * LOOK_BACK_MAX + 2):
        rig.engine.request(start_command(f"g{number}", start_step=None), Answers())
    await rig.decided()
    await go_on(rig, worker)
    assert len(worker.calls) == 1


async def test_arch_4_what_left_early_is_taken_back_with_its_session_when_the_log_refuses() -> None:
    """The worker comes back and presents a call that the log does not know."""
    rig, worker = await working()
    await go_on(rig, worker)
    rig.writer.refusal = LogFullError("full")
    rig.writer.commit()
    assert worker.end is not None

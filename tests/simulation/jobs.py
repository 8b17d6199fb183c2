"""Clients of batch jobs, and what a job must have done to each of its targets whatever struck [BATCH-1..3]."""

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from random import Random

from dexd.codec.batch_requests import BatchQuery, BatchView, to_batch_query, view_of
from dexd.codec.event_codec import is_of_run, stream_event_from_stored
from dexd.core import events as e
from dexd.core.flow.state import RunState
from dexd.core.ids import JobId, RequestId
from dexd.core.index_values import IndexType
from dexd.core.jobs import events as je
from dexd.core.jobs.commands import CancelJob
from dexd.core.jobs.desk import turn_size
from dexd.core.jobs.evolve import evolve_job
from dexd.core.jobs.results import GONE, REPLACED
from dexd.core.jobs.state import JobState
from dexd.core.outcome import RecordedEvent, RecordedStreamEvent
from dexd.core.values import FlowStatus
from dexpb.v1 import flow_service_pb2 as pb
from tests.simulation.acknowledged import Acknowledged
from tests.simulation.answers import value
from tests.simulation.requests import Requests
from tests.simulation.server import SimulatedServer

LABEL = "label"
"""An Attribute that jobs set on any Flow, and its index key."""

LOOKS_MAX = 300
"""How often a client looks at a job of a few seconds, a few seconds apart, while faults rage."""

STOPPED = {0: FlowStatus.CANCELED, 1: FlowStatus.FAILED, 2: FlowStatus.TERMINATED}
"""Type of a stop to what becomes of the Flow."""


async def drive_jobs(requests: Requests, random: Random, name: str) -> None:
    """Fill Inboxes, and let jobs publish to them, write to them, end them and send them back, a few at once.

    The last message goes to each when all jobs are closed, so that none is left open by a late time travel.
    """
    targets = [f"{name}/{number}" for number in range(random.randint(1, 4))]
    for target in targets:
        await requests.start(target, "Inbox", None)
        requests.acknowledged.targets.append(target)
    jobs = [await _begin(requests, random, name) for _ in range(random.randint(1, 3))]
    if random.random() < 0.3:
        await asyncio.sleep(random.uniform(0, 2))
        await requests.job(lambda _: CancelJob(random.choice(jobs)))
    if random.random() < 0.4:
        await requests.publish(random.choice(targets), "inbox", "end")
    for job_id in jobs:
        await _closed(requests, random, job_id)
    for target in targets:
        await requests.publish(target, "inbox", "end")


async def _closed(requests: Requests, random: Random, job_id: JobId) -> None:
    for _ in range(LOOKS_MAX):
        if (await requests.job(lambda _: job_id)).closed_at:
            return
        await asyncio.sleep(random.uniform(0.5, 3))
    raise AssertionError(f"job {job_id} does not end [INV-9]")


async def _begin(requests: Requests, random: Random, name: str) -> JobId:
    await asyncio.sleep(random.uniform(0, 4))
    own = f"FlowId LIKE '{name}/%'"
    operation, query = random.choice(
        [
            ("publish", own),
            ("publish", f"{own} AND StepStatus = 'waiting' ORDER BY FlowId"),
            ("set_attribute", f"{own} AND ({LABEL} IS NULL OR {LABEL} != 'urgent')"),
            ("set_attribute", "Status = 'RUNNING' AND NOT ActiveStepTypes = 'Line'"),
            ("stop", f"{own} AND ActiveStepTypes = 'Read' ORDER BY StartTime"),
            ("time_travel", f"{own} AND (Status = 'RUNNING' OR Status = 'CANCELED')"),
        ]
    )
    label = random.choice(["urgent", "later"])
    rate, kind = random.choice([1.0, 4.0, 50.0, 1_000.0]), random.randrange(3)

    def make(request_id: RequestId) -> BatchQuery:
        request = pb.CreateBatchRequest(query=query, rate=rate, request_id=request_id)
        request.index_keys.add(key=LABEL, type=IndexType.KEYWORD)
        match operation:
            case "publish":
                request.publish.CopyFrom(pb.PublishRequest(channel="inbox", values=[value(request_id)]))
            case "set_attribute":
                request.set_attribute.CopyFrom(pb.SetAttributeRequest(key=LABEL, value=value(label)))
                request.set_attribute.indexed.add(key=LABEL, type=IndexType.KEYWORD, value=value(label))
            case "stop":
                request.stop.CopyFrom(pb.StopFlowRequest(type=kind, reason="simulated"))
            case _:
                request.time_travel.CopyFrom(pb.TimeTravelRequest(reason="simulated"))
        read = to_batch_query(request, request_id)
        assert isinstance(read, BatchQuery), read
        return read

    return (await requests.job(make)).job_id


# ---- what must have become of them ------------------------------------------------------------------------------


def check_jobs(
    server: SimulatedServer,
    chains: Sequence[Sequence[RecordedEvent]],
    ends: Sequence[RunState],
    acknowledged: Sequence[Acknowledged],
    world: str,
) -> None:
    """Every job's account is what the histories of its targets say, and what its clients were told."""
    done = _done_by_requests(chains)
    jobs: dict[str, BatchView] = {}
    published: list[tuple[str, str]] = []
    for events in _streams(server):
        job = _check_account(events, server.crashes, world)
        where = f"{world}: job {job.job_id}"
        applied = _check_targets(events, job, done, where)
        live = server.engine.kernel.jobs.get(job.job_id) if server.engine is not None else None
        assert live is None or live == job, f"{where}: {live} is not its replay {job} [INV-8]"
        jobs[job.job_id] = view_of(job)
        if job.operation.kind is je.JobKind.PUBLISH:
            [item] = pb.PublishRequest.FromString(job.operation.request).values
            published += [(target, json.loads(item)) for target in applied]
    last: dict[str, RunState] = {state.flow_id: state for state in ends}
    for told in acknowledged:
        for job_id, view in told.jobs.items():
            assert job_id in jobs, f"{world}: job {job_id} is lost [INV-1]"
            _check_told(view, jobs[job_id], f"{world}: job {job_id}")
        for flow_id in told.targets:
            items = [item for target, item in published if target == flow_id]
            _check_target(last[flow_id], items, f"{world}: {flow_id}")


def _streams(server: SimulatedServer) -> list[list[RecordedStreamEvent]]:
    streams: dict[int, list[RecordedStreamEvent]] = {}
    for stored in server.log.everything:
        if not is_of_run(stored):
            streams.setdefault(stored.stream_id, []).append(stream_event_from_stored(stored))
    return [events for events in streams.values() if isinstance(events[0].event, je.JobCreated)]


def _check_account(events: Sequence[RecordedStreamEvent], crashes: int, world: str) -> JobState:
    """[BATCH-1] At any moment the counts add up, no target is passed over, and nothing follows the close."""
    job: JobState | None = None
    advanced = 0
    for recorded in events:
        where = f"{world}: job {'' if job is None else job.job_id} event {recorded.version} {recorded.event}"
        assert job is None or not job.is_closed, f"{where} after the close [BATCH-1]"
        if isinstance(recorded.event, je.JobProgressed):
            assert job is not None
            assert recorded.event.count == job.open_count, f"{where} for {job.open_count} that had their turn"
        job = evolve_job(job, recorded)
        assert job.applied + job.skipped + job.failed == job.done, f"{where}: {job} [BATCH-1]"
        assert sum(job.reasons.values()) == job.skipped + job.failed, f"{where}: {job.reasons} [BATCH-1]"
        if isinstance(recorded.event, je.JobAdvanced):
            advanced += recorded.event.count
            # A server that comes back does not know how long ago the last ones had their turn.
            allowed = job.rate * (recorded.at - job.created_at) / 1_000 + turn_size(job.rate) * (2 + crashes)
            assert advanced <= allowed, f"{where}: {advanced} had their turn, {allowed} may have had [BATCH-1]"
    assert job is not None
    where = f"{world}: job {job.job_id}"
    assert job.is_closed, f"{where} never ended [INV-9]"
    is_whole = job.done == job.matched
    assert is_whole if job.status is je.JobStatus.COMPLETED else job.is_canceled, f"{where} ended so: {job} [BATCH-1]"
    return job


def _done_by_requests(chains: Sequence[Sequence[RecordedEvent]]) -> Counter[tuple[str, str, str]]:
    """How often each request had an effect on each Flow, by request, Flow and chain; a fork counts for the Flow."""
    done: Counter[tuple[str, str, str]] = Counter()
    for chain in chains:
        begun = chain[0].event
        assert isinstance(begun, e.FlowStarted)
        for recorded in chain:
            event = recorded.event
            request = getattr(event, "request", None)
            if request is not None:
                whose = "" if isinstance(event, e.FlowForked | e.FlowClosed) else begun.run_id
                done[request.request_id, begun.flow_id, whose] += 1
    return done


def _check_targets(
    events: Sequence[RecordedStreamEvent], job: JobState, done: Counter[tuple[str, str, str]], where: str
) -> list[str]:
    """[BATCH-3] Fixed at the start, each once; applied is what its history shows, and shows once. Gives those."""
    fixed = [event.event for event in events if isinstance(event.event, je.JobTargetsFixed)]
    targets = [target.flow_id for event in fixed for target in event.targets]
    assert len(targets) == job.matched == len(set(targets)), f"{where} has targets {targets} [BATCH-3]"
    progress = [event.event for event in events if isinstance(event.event, je.JobProgressed)]
    problems = {problem.flow_id: problem for event in progress for problem in event.problems}
    request_id = f"sys:batch-{job.job_id}"
    effects: dict[str, list[int]] = {}
    for (request, flow_id, _), count in done.items():
        if request == request_id:
            effects.setdefault(flow_id, []).append(count)
    assert set(effects) <= set(targets[: job.done]), f"{where} had effects on {effects}, not only its targets [BATCH-3]"
    for target in targets[: job.done]:
        counts, problem = effects.get(target, []), problems.get(target)
        assert all(count == 1 for count in counts), f"{where}: applied to {target} so often: {counts} [BATCH-3]"
        # Asked again after a crash, one that is gone since then cannot tell that it was applied to.
        if problem is None or problem.reason not in (GONE, REPLACED):
            assert bool(counts) == (problem is None), f"{where}: {target} has effects {counts} and {problem} [BATCH-1]"
    return [target for target in targets[: job.done] if target in effects]


def _check_told(view: BatchView, last: BatchView, where: str) -> None:
    """What a client was told is how the job began, and how it ended if it was closed."""
    assert (view.kind, view.query, view.matched) == (last.kind, last.query, last.matched), f"{where} is {last} [GEN-8]"
    assert not view.closed_at or view == last, f"{where}: told {view}, is {last} [BATCH-1]"
    assert view.applied <= last.applied, f"{where}: told {view}, is {last} [INV-1]"


def _check_target(flow: RunState, published: Sequence[str], where: str) -> None:
    """A target has read what jobs published to it, or has it still, once each; its last message or a job ended it."""
    assert flow.status in (FlowStatus.COMPLETED, *STOPPED.values()), f"{where} is {flow.status}"
    items = json.loads(flow.attributes.get("seen", b"[]"))
    items += [json.loads(message.value) for message in flow.channels.get("inbox", ())]
    items = sorted(item for item in items if item != "end")
    assert not Counter(items) - Counter(published), f"{where} has got {items}, jobs sent {published} [INV-6, BATCH-3]"
    # What a Step had in hand when a job ended the Flow is gone with it.
    if flow.status is FlowStatus.COMPLETED:
        assert items == sorted(published), f"{where} has got {items}, jobs sent {published} [INV-6, BATCH-3]"

"""Schedules of real servers that are killed around a fire: every occurrence starts once, and none is lost [SCHED-2]."""

import signal
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from dexd.engine.ports import AFTER_COMMIT_BEFORE_EFFECTS, AFTER_SEND, BEFORE_APPEND
from dexd.log.directory import log_path
from dexd.log.sqlite_reader import OfflineLog
from dexsdk import (
    Client,
    ClientOptions,
    DexServiceError,
    OverlapPolicy,
    Registry,
    ScheduleAction,
    ScheduleOutcome,
    ScheduleOutcomeKind,
    SchedulePolicy,
    ScheduleSpec,
)
from dextools.log_verification import verify_log
from examples.cron_report import ReportFlow, ReportPlan
from tests.support.eventually import eventually
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.slow

SECOND = timedelta(seconds=1)


def client_of(server: ServerProcess) -> Client:
    return Client(Registry([ReportFlow()]), None, ClientOptions(server_address=server.address))


def started(client: Client) -> list[ScheduleOutcome]:
    outcomes = client.schedules.outcomes("secondly", page_size=1_000).outcomes
    return [outcome for outcome in outcomes if outcome.outcome is ScheduleOutcomeKind.STARTED]


@pytest.mark.parametrize("point", [BEFORE_APPEND, AFTER_COMMIT_BEFORE_EFFECTS, AFTER_SEND])
@pytest.mark.parametrize(
    "passage",
    [5, *(pytest.param(passage, marks=pytest.mark.long) for passage in (3, 4, 6, 7, 8, 9))],
)
async def test_sched_2_kill_around_a_fire_starts_every_occurrence_once(
    tmp_path: Path, point: str, passage: int
) -> None:
    """[SCHED-12, SCHED-13, ARCH-14] At every point of the commits of a fire, its start and its answer."""
    data_dir = tmp_path / "data"
    command = (sys.executable, "-m", "tests.support.failpoint_server", "--at", point, "--passage", str(passage))
    with ServerProcess(data_dir, command=command) as server, client_of(server) as client:
        policy = SchedulePolicy(OverlapPolicy.ALLOW_ALL)
        client.schedules.create(
            "secondly", ScheduleSpec(interval=1), ScheduleAction(ReportFlow, ReportPlan("x")), policy
        )
        assert server.wait() == -signal.SIGKILL
    with ServerProcess(data_dir) as server, client_of(server) as client:
        await eventually(lambda: len(started(client)) >= 4, "four fires")
        client.schedules.pause("secondly")
        fires = [outcome.first for outcome in started(client)]
        assert fires == [fires[0] + number * SECOND for number in range(len(fires))]
        for outcome in started(client):
            assert outcome.flow_id is not None
            info = client.describe_flow(outcome.flow_id)
            assert (info.run_id, info.ordinal, info.schedule_id) == (outcome.run_id, 1, "secondly")
        account = client.schedules.describe("secondly")
        assert account.started == len(fires)
        assert account.planned == account.started + account.skipped_by_reason.get("PAUSED", 0)
        assert account.created_at < fires[0] <= account.created_at + SECOND
    with OfflineLog(log_path(data_dir)) as log:
        assert verify_log(log, lambda _: None).faults == []


def test_sched_3_refusals_name_the_field(tmp_path: Path) -> None:
    """[SCHED-4, GEN-2] And nothing is stored."""
    with ServerProcess(tmp_path / "data") as server, client_of(server) as client:
        action = ScheduleAction(ReportFlow, ReportPlan("x"))
        for spec, named in (
            (ScheduleSpec("61 * * * *"), "minute: 61"),
            (ScheduleSpec("* * * * *", time_zone="Mars/Olympus"), "Mars/Olympus"),
            (ScheduleSpec(interval=0.5), "500 ms"),
        ):
            with pytest.raises(DexServiceError, match=named) as refused:
                client.schedules.create("wrong", spec, action)
            assert refused.value.code == "INVALID_ARGUMENT"
        assert client.schedules.list().schedules == ()

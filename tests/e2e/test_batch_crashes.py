"""SIGKILL of the server in the middle of a batch job: it goes on by itself, and applies to each Flow once [BATCH-1]."""

import time
from pathlib import Path

import pytest

from dexsdk import Channel, Client, ClientOptions, Flow, PersistenceSchema, Registry, StepList
from dexsdk.batch_results import BatchStatus
from tests.support.server_process import ServerProcess

FLOWS = 60
KILLS = 3
PROGRESS_S = 60.0
NEWS = Channel("news", int)

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("crashes")]


class Mailbox(Flow[None]):
    """Takes messages and does nothing."""

    def get_steps(self) -> StepList[None]:
        return StepList.empty()

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(NEWS)


def test_batch_3_every_flow_is_applied_to_once_whenever_the_server_is_killed(tmp_path: Path) -> None:
    registry = Registry([Mailbox()])
    batch_id, applied = "", 0
    for life in range(KILLS + 1):
        with (
            ServerProcess(tmp_path / "data") as server,
            Client(registry, None, ClientOptions(server_address=server.address)) as client,
        ):
            if not batch_id:
                for number in range(FLOWS):
                    client.start_flow(Mailbox, f"mailbox-{number}")
                batch_id = client.batch.publish("FlowType = 'Mailbox'", NEWS, 7, rate=200).id
            # The job must get on in each life, before the server is killed at whatever moment that is.
            wanted = FLOWS if life == KILLS else min(FLOWS, applied + FLOWS // (KILLS + 1))
            deadline = time.monotonic() + PROGRESS_S
            while (info := client.batch.describe(batch_id)).applied < wanted:
                assert time.monotonic() < deadline, info
            applied = info.applied
            if life == KILLS:
                assert (info.status, info.matched, info.applied) == (BatchStatus.COMPLETED, FLOWS, FLOWS)
                for number in range(FLOWS):
                    assert len(client.list_channel_messages(f"mailbox-{number}", NEWS)) == 1

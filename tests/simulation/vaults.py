"""Clients of vaults, and what must have become of every message [RPC-5, CHAN-8]."""

import asyncio
import json
from collections.abc import Sequence
from random import Random

from dexd.core import events as e
from dexd.core.flow.state import RunState
from dexd.core.outcome import RecordedEvent
from dexd.core.rejections import Rejection
from tests.simulation.acknowledged import Acknowledged
from tests.simulation.answers import value
from tests.simulation.requests import Requests
from tests.simulation.vault_programs import LOCKS


async def drive_vault(requests: Requests, random: Random, flow_id: str) -> None:
    """Clients take overlapping handfuls of messages, some of which never existed, at once."""
    await requests.start(flow_id, "Vault", None)
    ids: list[str] = []
    for number in range(random.randint(2, 8)):
        ids += await _keep(requests, flow_id, number)
    requests.acknowledged.kept[flow_id] = ids
    takers = [f"taker-{number}" for number in range(random.randint(1, 6))]
    await asyncio.gather(*(_take(requests, random, flow_id, taker, ids) for taker in takers))
    await requests.publish(flow_id, "close", "now")


async def _keep(requests: Requests, flow_id: str, number: int) -> Sequence[str]:
    accepted = await requests.publish(flow_id, "kept", f"item-{number}")
    if accepted is None:
        raise AssertionError(f"{flow_id} has closed")
    return accepted


async def _take(requests: Requests, random: Random, flow_id: str, taker: str, ids: Sequence[str]) -> None:
    wanted = random.sample(ids, random.randint(1, min(3, len(ids))))
    if random.random() < 0.15:
        wanted.insert(random.randint(0, len(wanted)), f"{ids[0]}-forged")
    await asyncio.sleep(random.uniform(0, 4))
    locks = random.choice([None, LOCKS, ()])
    answer = await requests.invoke(flow_id, "take", value({"by": taker, "ids": wanted}), locks, is_transactional=True)
    if isinstance(answer, Rejection):
        requests.acknowledged.takes_refused.setdefault(flow_id, {})[taker] = wanted
    elif answer is not None:
        requests.acknowledged.takes.setdefault(flow_id, {})[taker] = wanted


def check_vault(events: Sequence[RecordedEvent], last: RunState, where: str) -> None:
    """Writes, messages and deletions of one RPC are all there, or none of them is."""
    if last.flow_type != "Vault":
        return
    calls = [recorded.event for recorded in events if isinstance(recorded.event, e.RpcCompleted)]
    deleted = [
        message_id
        for recorded in events
        if isinstance(recorded.event, e.ChannelMessageDeleted)
        for message_id in recorded.event.message_ids
    ]
    taken = [message_id for ids in _taken(last).values() for message_id in ids]
    assert sorted(taken) == sorted(deleted), f"{where}: {taken} were taken and {deleted} deleted [CHAN-8]"
    assert len(dict.fromkeys(deleted)) == len(deleted), f"{where}: a message was taken twice: {deleted}"
    noted = [json.loads(message.value) for message in last.channels.get("taken", ())]
    assert sorted(noted) == sorted(_taken(last)), f"{where}: {noted} were noted, not {list(_taken(last))} [GEN-5]"
    assert len(calls) == len(noted), f"{where}: {len(calls)} calls in history, {len(noted)} of them with effects"


def check_takes(last: RunState, told: Acknowledged, where: str) -> None:
    """What takers were told: a refused one took nothing, and one of its messages was not there to be taken."""
    taken = _taken(last)
    gone = {message_id for ids in taken.values() for message_id in ids}
    kept = [message_id for message_id in told.kept[last.flow_id] if message_id not in gone]
    pending = [message.message_id for message in last.channels.get("kept", ())]
    assert pending == kept, f"{where}: {pending} are left of {kept} [CHAN-1]"
    for taker, ids in told.takes.get(last.flow_id, {}).items():
        assert taken.get(taker) == ids, f"{where}: {taker} was told that it has {ids}, but took {taken.get(taker)}"
    for taker, ids in told.takes_refused.get(last.flow_id, {}).items():
        assert taker not in taken, f"{where}: {taker} was refused and took {taken[taker]} [RPC-5]"
        assert not set(ids) <= set(kept), f"{where}: {taker} was refused {ids}, which are all there [CHAN-8]"


def _taken(last: RunState) -> dict[str, list[str]]:
    prefix = "taken "
    found = {key: content for key, content in last.attributes.items() if key.startswith(prefix)}
    return {key.removeprefix(prefix): json.loads(content) for key, content in found.items()}

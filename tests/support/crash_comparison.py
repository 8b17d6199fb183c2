"""What clients were told and what handlers did, compared with what the server says afterwards [INV-1..3].

Read through the public API, history by history. Every check gives texts; an empty list means that nothing is missing,
nothing is there twice and nothing was made up.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from dexsdk import AsyncClient, FlowInfo, FlowNotFoundError, FlowResult, FlowStatus, HistoryEvent
from tests.support.crash_flows import MARKS, NOTES, TAKEN
from tests.support.crash_load import Asked, Kind
from tests.support.handler_record import HandledCall, HandlerRecord

T = TypeVar("T")

FINISH_S = 60.0
"""When faults have stopped, everything runnable finishes within this [INV-9]."""

WRITES = {Kind.SET_ATTRIBUTE: MARKS, Kind.RPC: NOTES, Kind.PUBLISH: TAKEN}
"""Where what a request writes can be read; a ledger counts there what it was sent."""


class Facts:
    """What the server says about Flows that are asked about."""

    def __init__(self, client: AsyncClient, flow_ids: Iterable[str]) -> None:
        self._client = client
        self._flow_ids = list(dict.fromkeys(flow_ids))
        self.infos: dict[str, FlowInfo] = {}
        self.results: dict[str, FlowResult] = {}
        self.histories: dict[str, list[HistoryEvent]] = {}

    async def gather(self) -> None:
        """Wait until all that exist have ended, and read them."""
        infos = await asyncio.gather(*map(self._describe, self._flow_ids))
        existing = [info.flow_id for info in infos if info is not None]
        results = await asyncio.gather(*(self._client.wait_for_flow(flow_id, FINISH_S) for flow_id in existing))
        self.results = dict(zip(existing, results, strict=True))
        histories = await asyncio.gather(*map(self._history, existing))
        self.histories = dict(zip(existing, histories, strict=True))
        self.infos = {info.flow_id: info for info in infos if info is not None}

    async def written(self, asked: Asked) -> int:
        """The value that a request's word has in its ledger, 0 if none."""
        return await self._client.get_attribute(asked.flow_id, WRITES[asked.kind], asked.word) or 0

    async def _describe(self, flow_id: str) -> FlowInfo | None:
        try:
            return await self._client.describe_flow(flow_id)
        except FlowNotFoundError:
            return None

    async def _history(self, flow_id: str) -> list[HistoryEvent]:
        # Pages travel in the client's one session, where a watch has a call of its own; here are thousands of Flows.
        events: list[HistoryEvent] = []
        next_event_id: int | None = 1
        while next_event_id is not None:
            page = await self._client.get_history(flow_id, from_event_id=next_event_id)
            events += page.events
            next_event_id = page.next_event_id
        return events


async def compare(client: AsyncClient, asked: Sequence[Asked], record: HandlerRecord) -> list[str]:
    """Compare everything, once all Flows have ended; waits for that."""
    facts = Facts(client, (request.flow_id for request in asked))
    await facts.gather()
    found = [fault for request in asked for fault in _flow_faults(facts, request)]
    found += await _write_faults(facts, [request for request in asked if request.kind in WRITES])
    found += result_faults(facts.histories)
    found += handler_faults(facts.histories, record.calls())
    return found


# ---- requests ----------------------------------------------------------------------------------------------------


def _flow_faults(facts: Facts, asked: Asked) -> Iterator[str]:
    """An acknowledged start or stop stands; one without an answer stands as asked, or there is no trace of it."""
    if asked.kind in WRITES:
        return
    result, info = facts.results.get(asked.flow_id), facts.infos.get(asked.flow_id)
    if result is None or info is None:
        if asked.is_acknowledged:
            yield f"{asked}: acknowledged, but the Flow is unknown"
        return
    if asked.is_acknowledged and info.run_id != asked.run_id:
        yield f"{asked}: the Flow has run {info.run_id}"
    if asked.kind is Kind.STOP:
        yield from _stop_faults(asked, result)
    elif result.status is not FlowStatus.COMPLETED:
        yield f"{asked}: ended as {result}"
    elif asked.kind is not Kind.START_LEDGER and result.single_output(int) != asked.number:
        yield f"{asked}: the result is {result.single_output(int)}"


def _stop_faults(asked: Asked, result: FlowResult) -> Iterator[str]:
    if asked.is_acknowledged and (result.status, result.error_message) != (FlowStatus.FAILED, asked.word):
        yield f"{asked}: ended as {result}"


async def _write_faults(facts: Facts, asked: Sequence[Asked]) -> list[str]:
    """An acknowledged write was applied once, one without an answer once or not at all."""
    values = await asyncio.gather(*map(facts.written, asked))
    applied = Counter(word for events in facts.histories.values() for word in _applied_words(events))
    found = []
    for request, value in zip(asked, values, strict=True):
        times = applied.pop(request.word, 0)
        expected = request.number if request.kind is Kind.SET_ATTRIBUTE else 1
        if times > 1 or (request.is_acknowledged and times == 0):
            found.append(f"{request}: applied {times} times")
        elif value != times * expected:
            found.append(f"{request}: applied {times} times, the ledger holds {value}")
    return found + [f"{word!r} was applied, nobody has asked for it" for word in applied]


def _applied_words(events: Sequence[HistoryEvent]) -> Iterator[str]:
    """The words that clients' messages, Attribute writes and RPCs brought into one Flow."""
    for event in events:
        match event.kind:
            case "ChannelPublished":
                yield from (message["value"] for message in event.data["messages"] if message["value"])
            case "AttributesSet" | "RpcCompleted":
                yield from (write["key"].rpartition(_KEY_SEPARATOR)[2] for write in event.data["writes"])


_KEY_SEPARATOR = MARKS.key("x").removeprefix(MARKS.name).removesuffix("x")


# ---- results and handlers ----------------------------------------------------------------------------------------


def result_faults(histories: Mapping[str, Sequence[HistoryEvent]]) -> Iterator[str]:
    """[INV-3] One accepted result for each method of a Step execution, one result for each attempt."""
    for flow_id, events in histories.items():
        results = [event for event in events if event.kind in _RESULT_KINDS]
        accepted = Counter((event.kind, event.data["step_execution_id"]) for event in results if _is_accepted(event))
        yield from (f"{flow_id}: {key} accepted {count} times" for key, count in accepted.items() if count > 1)
        attempts = Counter(
            (event.kind.removesuffix("Completed").removesuffix("Failed"), *_attempt(event)) for event in results
        )
        yield from (f"{flow_id}: {key} has {count} results" for key, count in attempts.items() if count > 1)


def handler_faults(histories: Mapping[str, Sequence[HistoryEvent]], calls: Sequence[HandledCall]) -> Iterator[str]:
    """[INV-2, INV-3, DELIV-2] No handler ran without a committed hand-over, none ran twice for the same one.

    And for every accepted result a handler ran, under one idempotency key for each Step execution.
    """
    dispatched = {
        (event.run_id, event.data["method"], *_attempt(event), event.data["delivery"], event.data["worker_id"])
        for events in histories.values()
        for event in events
        if event.kind == "StepDispatched"
    }
    handed_over = Counter(map(_delivery, calls))
    for delivery, count in handed_over.items():
        if count > 1:
            yield f"handed over {count} times: {delivery}"
        if delivery not in dispatched:
            yield f"a handler ran that was not dispatched: {delivery}"
    keys = {(call.run_id, call.step_execution_id): call.key for call in calls}
    if len(set(keys.values())) != len(keys):
        yield "two Step executions share an idempotency key"
    yield from (
        f"{call}: its key was {keys[call.run_id, call.step_execution_id]!r} elsewhere"
        for call in calls
        if keys[call.run_id, call.step_execution_id] != call.key
    )
    handled = {(call.run_id, call.method, call.step_execution_id) for call in calls}
    for event in (event for events in histories.values() for event in events if _is_accepted(event)):
        method = _METHOD_OF_ACCEPTED[event.kind]
        if (event.run_id, method, event.data["step_execution_id"]) not in handled:
            yield f"accepted, but no handler ran: {event}"


_METHOD_OF_ACCEPTED = {"WaitForCompleted": "wait_for", "ExecuteCompleted": "execute"}
_RESULT_KINDS = frozenset({*_METHOD_OF_ACCEPTED, "WaitForFailed", "ExecuteFailed"})


def _is_accepted(event: HistoryEvent) -> bool:
    return event.kind in _METHOD_OF_ACCEPTED


def _attempt(event: HistoryEvent) -> tuple[str, int]:
    return event.data["step_execution_id"], event.data["attempt"]


def _delivery(call: HandledCall) -> tuple[str, str, str, int, int, str]:
    method = call.method.upper()
    return (call.run_id, method, call.step_execution_id, call.attempt, call.delivery, call.worker)

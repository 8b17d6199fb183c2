"""How a FAILED execution begins again [START-8]."""

import hashlib

import msgspec

from dexd.core.events import FlowRetried, FlowStarted
from dexd.core.flow.decide_start import schedule_of
from dexd.core.flow.retry import delay_ms
from dexd.core.flow.state import RunState
from dexd.core.ids import MessageId, RunId
from dexd.core.terms import FlowTerms
from dexd.core.values import FlowStatus


def next_run_id(run: RunState, terms: FlowTerms, status: FlowStatus) -> RunId:
    """The run that follows when this one closes with that status; empty when the execution ends with it.

    Only FAILED is tried again, and only while the policy has attempts left; the caller leaves out stop requests.
    """
    retry = terms.retry
    if retry is None or status is not FlowStatus.FAILED:
        return RunId("")
    if retry.policy.maximum_attempts and run.flow_attempt >= retry.policy.maximum_attempts:
        return RunId("")
    return derived_run_id(f"{run.run_id}/retry")


def derived_run_id(source: str) -> RunId:
    """The ID of a run that follows from another one; the source names it uniquely, so that replay gives the same."""
    return RunId(hashlib.sha256(source.encode()).hexdigest()[:32])


def decide_flow_retry(run: RunState, *, now: int) -> tuple[FlowStarted, FlowRetried]:
    """Begin the next run: same input, options and initial Attributes, a fresh budget of time, and a delay first.

    Unconsumed messages from outside go along in order; what Steps had published does not, because they
    will do so again. Requests stay remembered, because they belong to the execution [RPC-12], and so do settings that
    were changed on the way [CFG-2].
    """
    terms = run.terms
    retry = None if terms is None else terms.retry
    assert terms is not None
    assert retry is not None, "who has a next run has a retry policy"
    delay = delay_ms(retry.policy, run.flow_attempt, draw=_draw(run))
    eligible_at, timeout_at = schedule_of(terms, delay_ms=delay, now=now)
    if run.config != terms.config:
        terms = msgspec.structs.replace(terms, config=run.config)
    started = FlowStarted(
        run.flow_id,
        run.next_run_id,
        run.flow_type,
        run.ordinal,
        run.start_request_id,
        run.start_digest,
        run.seed,
        retry.attributes,
        run.standing,
        terms,
        eligible_at,
        timeout_at,
        retry.indexed,
    )
    retried = FlowRetried(
        run.flow_attempt + 1,
        run.run_id,
        run.execution_id,
        run.started_at,
        run.message_base + run.version,
        tuple(_carried(run)),
        tuple((remembered.record, remembered.at) for remembered in run.requests.values()),
    )
    return started, retried


def _carried(run: RunState) -> list[tuple[str, tuple[tuple[MessageId, bytes, int], ...]]]:
    carried = []
    for channel, queue in run.channels.items():
        messages = tuple(
            (MessageId(message.message_id), message.value, message.published_at)
            for message in queue
            if not message.is_own
        )
        if messages:
            carried.append((channel, messages))
    return carried


def _draw(run: RunState) -> float:
    """Spread the run's seed over the attempts of the Flow [RETRY-2]."""
    digest = hashlib.sha256(f"{run.seed}/{run.run_id}/{run.flow_attempt}".encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48

"""What events do to settings and attempts of an execution; part of the fold, called by `evolve` only."""

from dexd.core import events as e
from dexd.core.flow.carrying import from_carried, take_over
from dexd.core.flow.contents import enqueue, remember
from dexd.core.flow.state import RunState
from dexd.core.values import Message


def flow_config_updated(state: RunState, event: e.FlowConfigUpdated, at: int) -> None:
    """A client changed what it set [CFG-2]."""
    state.config = event.config if state.config is None else state.config.overridden_by(event.config)
    remember(state, event.request, at)


def flow_continued(state: RunState, event: e.FlowContinued, at: int) -> None:
    """Go on where the run before left off [ROLL-3]."""
    carried = from_carried(event.carried)
    take_over(state, carried)
    state.chain_id = carried.chain_id
    if event.request is not None:
        remember(state, event.request, at)


def flow_forked(state: RunState, event: e.FlowForked, at: int) -> None:
    """Go on where the execution stood at the point, in the time that the new run has [TT-4, TIME-4]."""
    timeout_at = state.timeout_at
    take_over(state, from_carried(event.carried))
    state.timeout_at = timeout_at
    state.message_base = event.message_base
    for record, applied_at in event.requests:
        remember(state, record, applied_at)
    remember(state, event.request, at)


def flow_reopened(state: RunState, event: e.FlowReopened, at: int) -> None:  # noqa: ARG001 - a fold
    """Whoever follows the execution finds the run with which it goes on [WAITAPI-2]."""
    state.next_run_id = event.next_run_id


def flow_retried(state: RunState, event: e.FlowRetried, at: int) -> None:  # noqa: ARG001 - a fold
    """Take over what outlives the failed run before [START-8]."""
    state.flow_attempt = event.attempt
    state.first_run_id = event.first_run_id
    state.started_at = event.flow_started_at
    state.message_base = event.message_base
    for channel, messages in event.messages:
        for message_id, value, published_at in messages:
            enqueue(state, channel, Message(message_id, value, published_at))
    for record, applied_at in event.requests:
        remember(state, record, applied_at)

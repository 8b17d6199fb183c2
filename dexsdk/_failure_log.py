"""What a worker's log tells of failed attempts; history has them too, but whoever writes a handler looks here first."""

import logging

from dexpb.v1 import frames
from dexsdk._call import Call
from dexsdk.context import run_id_of
from dexsdk.errors import RetryAfter

logger = logging.getLogger("dexsdk.worker")


def log_failure(call: Call, error: BaseException, failure: frames.Failure) -> None:
    """Log a failed attempt with its stack; what a handler does on purpose or is told to do is no warning.

    Of a Step that goes on failing, attempts 1, 2, 4, 8 and so on are warnings, so that it is seen and fills no log.

    The stack is the one that travels: it begins at the handler, is bounded, and every stream can write it [OPT-6].
    """
    assign = call.assign
    token = assign.token
    is_rpc = call.is_rpc
    fields = {
        "flow_id": assign.flow_id,
        "run_id": run_id_of(assign),
        "step_execution_id": "" if is_rpc else token.call,
        "attempt": 1 if is_rpc else token.attempt,
    }
    place = f"{call.place}: flow_id={assign.flow_id}"
    if not is_rpc:  # what an RPC has in their place tells nobody anything
        place = f"{place} step={token.call} attempt={token.attempt}"
    if isinstance(error, RetryAfter):
        logger.info("handler_retries_later %s in_ms=%d", place, error.delay_ms, extra=fields)
    else:
        is_told_of = is_rpc or token.attempt.bit_count() == 1
        level = logging.WARNING if is_told_of and not call.is_cancellation_requested else logging.DEBUG
        logger.log(level, "handler_failed %s\n%s", place, failure.stack.rstrip(), extra=fields)

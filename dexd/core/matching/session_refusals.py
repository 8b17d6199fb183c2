"""Why a session or a stream is refused or ended, in words that name limit, value and offender [QUEUE-2, QUEUE-3]."""

from dexd.core.ids import WorkerId
from dexd.core.rejections import Code, Rejection


def superseded(worker_id: WorkerId) -> Rejection:
    """A replaced incarnation, for good [QUEUE-2]."""
    return Rejection(
        Code.WORKER_ID_SUPERSEDED,
        f"a newer process took app worker ID {worker_id!r}; an app worker ID names one process",
        {"worker_id": worker_id},
    )


def over(code: Code, worker_id: WorkerId, what: str, found: int, setting: str, limit: int) -> Rejection:
    """A number of a worker above its limit [QUEUE-3]."""
    return Rejection(
        code,
        f"worker {worker_id!r}: {found} {what}, the limit is {limit} ({setting})",
        {"worker_id": worker_id, "found": str(found), "limit": str(limit), "setting": setting},
    )


def too_long(code: Code, name: str, setting: str, limit: int) -> Rejection:
    """A name of a queue above its limit [QUEUE-3]."""
    return Rejection(
        code,
        f"queue {name!r}: {len(name)} characters, the limit is {limit} ({setting})",
        {"queue": name, "found": str(len(name)), "limit": str(limit), "setting": setting},
    )


def deaf(worker_id: WorkerId, waited_ms: int, limit_ms: int) -> Rejection:
    """A session that owes a Pong [WIRE-7]."""
    message = f"worker {worker_id!r} did not answer a ping within {waited_ms} ms"
    return Rejection(Code.SESSION_TIMEOUT, message, {"worker_id": worker_id, "limit_ms": str(limit_ms)})


def expired(worker_id: WorkerId, asked_ms: int, max_age_ms: int) -> Rejection:
    """A session that is too old, and did not go when it was asked to [DRAIN-3]."""
    message = (
        f"the session of worker {worker_id!r} reached its age (matching.session_max_age), and {asked_ms} ms after the"
        " worker was asked to reconnect it is still open"
    )
    return Rejection(Code.SESSION_EXPIRED, message, {"worker_id": worker_id, "limit_ms": str(max_age_ms)})

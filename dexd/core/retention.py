"""Which runs may leave the log, and how long their Flow IDs are remembered beyond that [KEEP-1, ID-10].

A run counts by its own close: so the last run of an execution leaves when the execution has been closed for so long,
and one that was tried again, rolled over or forked leaves although its execution may be open.
"""

import msgspec

DAY_MS = 86_400_000


class RetentionConfig(msgspec.Struct, frozen=True):
    """All durations are milliseconds; 0 keeps for ever."""

    retention_ms: int = 30 * DAY_MS
    """How long a run is kept after its close."""
    ordinal_retention_ms: int = 365 * DAY_MS
    """How long the last ordinal of a Flow ID is kept after its last run has left."""


def due_until(config: RetentionConfig, *, now: int) -> int:
    """[KEEP-1] Runs that closed up to this instant are due; 0 says that none is, because open runs have 0."""
    return max(now - config.retention_ms, 0) if config.retention_ms else 0


def ordinal_expiry(config: RetentionConfig, *, now: int) -> int:
    """[ID-10] Until when the ordinal of a Flow ID is kept whose last run leaves now; 0 is for ever."""
    return now + config.ordinal_retention_ms if config.ordinal_retention_ms else 0

"""The worker's monotonic clock."""

import time


def now_ms() -> int:
    """Give its milliseconds."""
    return time.monotonic_ns() // 1_000_000

"""What a process holds, sampled while it works, and whether that grows [INV-10]."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import linear_regression, mean
from typing import NamedTuple

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class ResourceUse(NamedTuple):
    """One sample."""

    at_s: float
    resident_bytes: int
    descriptors: int


class Growth(NamedTuple):
    """What the regression line through the second half of the samples says."""

    mean: float
    per_minute: float

    @property
    def share_per_minute(self) -> float:
        """Growth in relation to the mean."""
        return self.per_minute / self.mean


def use_of(pid: int) -> ResourceUse:
    """Look at a process of this machine."""
    process = Path("/proc") / str(pid)
    pages = int((process / "statm").read_text().split()[1])
    return ResourceUse(time.monotonic(), pages * PAGE_BYTES, len(list((process / "fd").iterdir())))


def memory_growth(samples: Sequence[ResourceUse]) -> Growth:
    """Growth of resident memory, in bytes."""
    return _growth([(sample.at_s, sample.resident_bytes) for sample in samples])


def descriptor_growth(samples: Sequence[ResourceUse]) -> Growth:
    """Growth of open descriptors."""
    return _growth([(sample.at_s, sample.descriptors) for sample in samples])


def _growth(points: Sequence[tuple[float, float]]) -> Growth:
    # The first half fills caches and pools, which are bounded by number and not by time.
    half = points[len(points) // 2 :]
    instants, values = zip(*half, strict=True)
    return Growth(mean(values), linear_regression(instants, values).slope * 60)

"""Which runs may leave the log, and the ordinals that outlive them [KEEP-1, ID-10]."""

import msgspec
import pytest

from dexd.core.config import KernelConfig
from dexd.core.events import FlowStarted
from dexd.core.ids import FlowId
from dexd.core.kernel import Kernel
from dexd.core.retention import DAY_MS, RetentionConfig, due_until, ordinal_expiry
from tests.support.builders import FLOW, T0, start


def test_keep_1_runs_are_due_when_they_have_been_closed_for_the_retention() -> None:
    """[KEEP-1] To the millisecond; 30 days by default."""
    assert due_until(RetentionConfig(), now=100 * DAY_MS) == 70 * DAY_MS
    assert due_until(RetentionConfig(retention_ms=1), now=T0) == T0 - 1


@pytest.mark.parametrize("config", [RetentionConfig(retention_ms=0), RetentionConfig(retention_ms=T0 + 5)])
def test_keep_1_zero_keeps_for_ever(config: RetentionConfig) -> None:
    """[KEEP-1] As does a retention from before all times; open runs have 0 as their close."""
    assert due_until(config, now=T0) == 0


def test_id_10_ordinals_expire_after_their_own_retention() -> None:
    """[ID-10] A year after the deletion by default; 0 is never."""
    assert ordinal_expiry(RetentionConfig(), now=T0) == T0 + 365 * DAY_MS
    assert ordinal_expiry(RetentionConfig(ordinal_retention_ms=0), now=T0) == 0


def test_id_10_start_goes_on_behind_the_last_ordinal() -> None:
    """[ID-10] Once; what is started after that counts from what was started."""
    kernel = Kernel(KernelConfig(), last_stream_id=0)
    assert kernel.wanted(start()) == start()
    kernel.note_ordinal(FLOW, 4)
    begun = kernel.handle(start(), now=T0).events[0].event
    assert isinstance(begun, FlowStarted)
    assert begun.ordinal == 5
    run = kernel.run(FLOW)
    assert run is not None
    assert run.ordinal == 5
    other = kernel.handle(msgspec.structs.replace(start(run_id="r2"), flow_id=FlowId("other")), now=T0).events[0].event
    assert isinstance(other, FlowStarted)
    assert other.ordinal == 1

"""The table of limits in docs/large-values.md says what the code says [LIM-1, LIM-2]."""

import re

import pytest

import dexsdk._codec
import dexsdk._invoker
import dexsdk._names
import dexsdk.attribute
import dexsdk.channel
import dexsdk.context
import dexsdk.decision
from dexd.config import ServerConfig
from dexd.core import config
from dexd.log.reading import HISTORY_PAGE_BYTES_MAX
from dexpb.v1 import blobs
from tests.docs.fenced_blocks import ROOT

UNITS = {"KiB": 1024, "MiB": 1024 * 1024, "characters": 1, "": 1}

LIMITS: dict[str, tuple[int, ...]] = {
    "one value, encoded": (dexsdk._codec.VALUE_BYTES_MAX, ServerConfig().blob.max_bytes),
    "one value that travels inline": (
        config.INLINE_VALUE_BYTES_MAX,
        blobs.THRESHOLD_BYTES,
        ServerConfig().blob.threshold_bytes,
    ),
    "one request, response or frame": (dexsdk._invoker.FRAME_BYTES_MAX, ServerConfig().api.max_message_bytes),
    "one page of history": (HISTORY_PAGE_BYTES_MAX,),
    "names and IDs": (dexsdk._names.NAME_LENGTH_MAX, config.NAME_LENGTH_MAX),
    "step execution locals": (dexsdk.context.LOCALS_BYTES_MAX, config.STEP_LOCALS_BYTES_MAX),
    "one heartbeat value": (dexsdk.context.HEARTBEAT_BYTES_MAX, config.HEARTBEAT_BYTES_MAX),
    "recorded events in one call": (dexsdk.context.RECORDED_EVENTS_MAX, config.RECORDED_EVENTS_MAX),
    "publications in one response": (dexsdk.channel.PUBLICATIONS_MAX, config.PUBLICATIONS_MAX),
    "Steps scheduled by one decision": (dexsdk.decision.MOVEMENTS_MAX, config.MOVEMENTS_MAX),
    "active Steps": (config.ACTIVE_STEPS_MAX,),
    "map instances": (dexsdk.attribute.MAP_INSTANCES_MAX, config.MAP_INSTANCES_MAX),
    "pending messages of one execution": (config.PENDING_MESSAGES_MAX,),
    "bytes of pending messages": (config.PENDING_BYTES_MAX,),
}
"""Every place that enforces a limit, by the beginning of its row."""


def rows() -> dict[str, int]:
    page = (ROOT / "docs/large-values.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| ([^|]+) \| ([\d,]+) ?(KiB|MiB|characters|) \|", page, flags=re.MULTILINE)
    return {what: int(number.replace(",", "")) * UNITS[unit] for what, number, unit in found}


@pytest.mark.parametrize("what", LIMITS)
def test_lim_1_lim_2_every_limit_is_documented_as_it_is(what: str) -> None:
    [documented] = [limit for row, limit in rows().items() if row.startswith(what)]
    assert dict.fromkeys(LIMITS[what]) == {documented: None}


def test_the_table_has_no_other_rows() -> None:
    assert len(rows()) == len(LIMITS)

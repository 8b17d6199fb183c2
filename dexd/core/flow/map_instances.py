"""How many instances the AttributeMaps of one execution may have together [LIM-2].

(Instances of ChannelMaps that have content are bounded by the messages in them.)
"""

from collections.abc import Sequence

from dexd.core.config import MAP_INSTANCES_MAX, MAP_KEY_SEPARATOR
from dexd.core.flow.state import RunState
from dexd.core.rejections import Code, Rejection


def refuse_instances(run: RunState, writes: Sequence[tuple[str, bytes | None]]) -> Rejection | None:
    """Refuse writes after which there would be too many; they are only counted when that is possible at all."""
    attributes = run.attributes
    if len(attributes) + len(writes) <= MAP_INSTANCES_MAX:
        return None
    last = {key: value for key, value in writes if MAP_KEY_SEPARATOR in key}
    count = sum(1 for key in attributes if MAP_KEY_SEPARATOR in key and key not in last)
    count += sum(1 for value in last.values() if value is not None)
    if count <= MAP_INSTANCES_MAX:
        return None
    what = "map instances"
    return Rejection(
        Code.VALUE_TOO_LARGE,
        f"Flow {run.flow_id!r} would have {count} {what}, the limit is {MAP_INSTANCES_MAX}",
        {"flow_id": run.flow_id, "what": what, "size": str(count), "limit": str(MAP_INSTANCES_MAX)},
    )

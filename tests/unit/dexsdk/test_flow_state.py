"""Documents of the server as frozen data [HIST-1, SDK-2]."""

from dataclasses import dataclass, fields
from datetime import UTC, datetime

from dexpb.v1 import flow_service_pb2 as pb
from dexsdk import Blocker, FlowExplanation, FlowState, HistoryEvent, HistoryPage
from dexsdk._documents import read_document
from dexsdk._replies import to_explanation
from dexsdk.flow_state import BlockerKind


@dataclass(frozen=True)
class _Part:
    at: datetime
    kind: BlockerKind | None


@dataclass(frozen=True)
class _Whole:
    parts: tuple[_Part, ...]
    value: object
    maybe: _Part | None = None


def test_documents_become_data_and_what_is_unknown_is_ignored() -> None:
    """A newer server can say more, and values stay what their JSON holds."""
    data = (
        b'{"parts":[{"at":1500,"kind":"LOCK","new":1},{"at":0,"kind":null}],"value":{"at":9007199254740993},"more":2}'
    )
    second, epoch = datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC), datetime(1970, 1, 1, tzinfo=UTC)
    assert read_document(_Whole, data) == _Whole(
        (_Part(second, BlockerKind.LOCK), _Part(epoch, None)), {"at": 9007199254740993}
    )


def test_hist_6_an_explanation_has_blockers_with_the_five_fields() -> None:
    """[HIST-6] A kind compares with its text; an instant that is not known is None."""
    reply = pb.ExplainFlowReply(blockers=[pb.Blocker(step_execution_id="A-1", kind="LIMIT", text="t", since=1_000)])
    explanation = to_explanation(reply.SerializeToString())
    since = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert explanation == FlowExplanation((Blocker("A-1", BlockerKind.LIMIT, "t", since, None),))
    assert explanation.blockers[0].kind == "LIMIT"
    assert [field.name for field in fields(Blocker)] == ["step_execution_id", "kind", "text", "since", "until"]


def test_sdk_2_shapes_of_history() -> None:
    """[SDK-2] Pages of history and their events."""
    assert [field.name for field in fields(HistoryPage)] == ["events", "next_event_id"]
    assert [field.name for field in fields(HistoryEvent)] == ["event_id", "run_id", "at", "kind", "data"]
    assert fields(FlowState)[0].name == "flow_id"

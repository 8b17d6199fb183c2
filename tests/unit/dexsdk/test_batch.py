"""What a client says of batch jobs, and refuses before anything is sent [BATCH-2, GEN-2]."""

from datetime import UTC, datetime
from typing import Any

import pytest

from dexpb.v1 import flow_service_pb2 as pb
from dexsdk import (
    Attribute,
    Channel,
    Flow,
    PersistenceSchema,
    Registry,
    StepList,
    StopFlowOptions,
    StopType,
    TimeTravelOptions,
    TimeTravelType,
)
from dexsdk._batch_verbs import BatchVerbs, to_batch_info
from dexsdk._verbs import Verbs
from dexsdk.batch_results import BatchStatus

NEWS = Channel("news", int)
LEVEL = Attribute("level", int)
QUERY = "Status = 'RUNNING'"


class Entity(Flow[None]):
    def get_steps(self) -> StepList[None]:
        return StepList.empty()

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(NEWS, LEVEL)


VERBS = BatchVerbs(Verbs(Registry([Entity()])))


def asked(conversation: Any) -> pb.CreateBatchRequest:
    """What the verb sends first."""
    request = pb.CreateBatchRequest.FromString(next(conversation).body)
    assert request.request_id
    return request


def test_batch_1_each_operation_says_what_a_call_for_one_flow_says() -> None:
    stop = asked(VERBS.stop(QUERY, StopFlowOptions(StopType.FAIL, "over", "mine"), {"rate": 2.0, "dry_run": True}))
    assert (stop.query, stop.rate, stop.dry_run, stop.request_id) == (QUERY, 2.0, True, "mine")
    assert stop.stop == pb.StopFlowRequest(type=1, reason="over")
    publish = asked(VERBS.publish(QUERY, NEWS, [1, 2], {}))
    assert publish.publish == pb.PublishRequest(channel="news", values=[b"1", b"2"])
    assert publish.rate == 50.0
    travel = asked(VERBS.time_travel(QUERY, TimeTravelOptions(TimeTravelType.BEGINNING, reason="again"), {}))
    assert travel.time_travel == pb.TimeTravelRequest(type=0, reason="again")
    write = asked(VERBS.set_attribute("", LEVEL, [3], {"all_flows": True}))
    assert (write.set_attribute.key, write.set_attribute.value, write.all_flows) == ("level", b"3", True)


def test_batch_2_an_empty_query_is_refused_unless_all_flows_are_meant() -> None:
    for query in ("", "  \t"):
        with pytest.raises(ValueError, match="all_flows=True"):
            VERBS.stop(query, None, {})


@pytest.mark.parametrize("rate", [0, -1, 1_001, float("nan")])
def test_batch_1_a_rate_outside_its_range_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="rate is"):
        VERBS.stop(QUERY, None, {"rate": rate})


def test_batch_1_operations_that_no_flow_could_take_are_refused() -> None:
    with pytest.raises(ValueError, match="publish needs at least one value"):
        VERBS.publish(QUERY, NEWS, [], {})
    with pytest.raises(ValueError, match="needs a value"):
        VERBS.set_attribute(QUERY, LEVEL, [], {})
    with pytest.raises(ValueError, match="page_size is 0"):
        VERBS.list(0, "")


def test_batch_1_info_of_a_job() -> None:
    message = pb.BatchInfo(
        batch_id="b",
        operation="STOP",
        query=QUERY,
        status="RUNNING",
        matched=3,
        applied=1,
        skipped=1,
        failed=1,
        reasons={"NO_MATCH": 1},
        problems=[pb.BatchProblem(flow_id="f", outcome="SKIPPED", reason="NO_MATCH")],
        rate=2.0,
        created_at=1_000,
    )
    info = to_batch_info(message.SerializeToString())
    assert (info.id, info.status, info.matched, info.applied, info.skipped, info.failed) == (
        "b",
        BatchStatus.RUNNING,
        3,
        1,
        1,
        1,
    )
    assert (info.reasons, info.problems[0].flow_id) == ({"NO_MATCH": 1}, "f")
    assert (info.created_at, info.closed_at) == (datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), None)

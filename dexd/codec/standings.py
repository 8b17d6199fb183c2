"""How a Flow's calls stand in queues, from a request into the core's values [ROUTE-7, LIMIT-7.6]."""

import math

from dexd.codec.faults import name_fault, priority_fault
from dexd.core.values import PRIORITY_DEFAULT, WEIGHT_DEFAULT, WEIGHT_MAX, Standing
from dexpb.v1 import flow_service_pb2 as pb

WEIGHT_UNITS = 1_000
"""Weights are whole thousandths inside, so that shares are exact."""


def standing_fault(standing: pb.Standing) -> str | None:
    """Check a request's standing; unset fields are zero and mean the default."""
    if standing.priority and (fault := priority_fault(standing.priority)) is not None:
        return fault
    if standing.fairness_key and (fault := name_fault(standing.fairness_key, "fairness_key")) is not None:
        return fault
    weight = standing.fairness_weight
    if weight and not (math.isfinite(weight) and 1 / WEIGHT_UNITS <= weight <= WEIGHT_MAX / WEIGHT_UNITS):
        return f"fairness_weight is {weight:g}, allowed are {1 / WEIGHT_UNITS:g} to {WEIGHT_MAX // WEIGHT_UNITS}"
    return None


def standing_of_proto(standing: pb.Standing) -> Standing | None:
    """Take a checked standing; None when it is that of everybody."""
    taken = Standing(
        standing.priority or PRIORITY_DEFAULT,
        standing.fairness_key,
        round(standing.fairness_weight * WEIGHT_UNITS) or WEIGHT_DEFAULT,
    )
    return None if taken == _EVERYBODY else taken


_EVERYBODY = Standing()

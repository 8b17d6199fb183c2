"""What is wrong with the fields of a request, as the refusal that names the field, its value and what is allowed.

None means that nothing is wrong.
"""

from collections.abc import Sequence

from dexd.codec.faults import chosen_name_fault, name_fault, owned_name_fault
from dexd.core.config import INLINE_VALUE_BYTES_MAX, PENDING_MESSAGES_MAX
from dexd.core.ids import RunId
from dexd.core.rejections import Code, Rejection


def invalid(field: str, message: str) -> Rejection:
    """Refuse a field."""
    return Rejection(Code.INVALID_ARGUMENT, message, {"field": field})


def refuse_fault(fault: str | None, field: str) -> Rejection | None:
    """Refuse what a fault says, if it says something."""
    return None if fault is None else invalid(field, fault)


def refuse_owned_name(text: str, field: str) -> Rejection | None:
    """Refuse a name that a caller may not choose [ID-1, ID-3]."""
    return refuse_fault(owned_name_fault(text, field), field)


def refuse_new_flow_id(flow_id: str) -> Rejection | None:
    """Refuse a Flow ID that a caller may not choose for a new execution [ID-1, ID-3]."""
    return refuse_fault(chosen_name_fault(flow_id, "flow_id"), "flow_id")


def refuse_run(flow_id: str, run_id: str) -> Rejection | None:
    """Refuse a Flow ID or run ID that cannot be one."""
    fault = name_fault(flow_id, "flow_id")
    if fault is not None:
        return invalid("flow_id", fault)
    return refuse_fault(name_fault(run_id, "run_id"), "run_id") if run_id else None


def refuse_request_id(request_id: str) -> Rejection | None:
    """Refuse a request ID that cannot be one; none at all is fine [START-6]."""
    return refuse_fault(name_fault(request_id, "request_id"), "request_id") if request_id else None


def refuse_target(flow_id: str, run_id: str, request_id: str) -> Rejection | None:
    """Refuse what names the target of a change."""
    return refuse_run(flow_id, run_id) or refuse_request_id(request_id)


def refuse_value(value: bytes, field: str) -> Rejection | None:
    """Refuse a value that is too large to travel inline; it must be uploaded first [LIM-1, BLOB-1]."""
    if len(value) <= INLINE_VALUE_BYTES_MAX:
        return None
    return refuse_size(f"inline {field}", len(value), INLINE_VALUE_BYTES_MAX, hint="; upload it and send its reference")


def refuse_size(what: str, size: int, limit: int, hint: str = "") -> Rejection:
    """Refuse what is larger than its limit [LIM-3]."""
    fields = {"what": what, "size": str(size), "limit": str(limit)}
    return Rejection(Code.VALUE_TOO_LARGE, f"{what} has size {size}, the limit is {limit}{hint}", fields)


def refuse_values(values: Sequence[bytes]) -> Rejection | None:
    """Refuse values to publish: none, too many, or one that is too large."""
    refusal = refuse_outside(len(values), "values", 1, PENDING_MESSAGES_MAX)
    return refusal or next(filter(None, (refuse_value(value, "value") for value in values)), None)


def refuse_outside(number: int, field: str, smallest: int, largest: int) -> Rejection | None:
    """Refuse a number outside a range."""
    if smallest <= number <= largest:
        return None
    return invalid(field, f"{field} is {number}, allowed are {smallest} to {largest}")


def refuse_negative(number: int, field: str) -> Rejection | None:
    """Refuse a negative number."""
    return invalid(field, f"{field} is {number}, allowed are 0 and more") if number < 0 else None


def refuse_step_execution_id(text: str) -> Rejection | None:
    """Refuse what is no Step execution ID [ID-6]."""
    step_type, hyphen, number = text.rpartition("-")
    is_number = number.isascii() and number.isdecimal() and not number.startswith("0") and len(number) <= 18
    if hyphen and is_number and name_fault(step_type, "Step type") is None:
        return None
    shown = text[:300]
    return Rejection(
        Code.STEP_NOT_FOUND,
        f"{shown!r} is not a Step execution ID, which is a Step type, a hyphen and a number from 1 on",
        {"step_execution_id": shown},
    )


def optional_run_id(text: str) -> RunId | None:
    """Read a run ID that may be left out."""
    return RunId(text) if text else None

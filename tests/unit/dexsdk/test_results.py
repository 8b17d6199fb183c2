"""What calls give back [DEC-7, FLOW-6]."""

import pytest

from dexsdk import CodecRegistry, FlowResult, FlowStatus, StepCompletion, ValueMappingError


def completion(value: bytes) -> StepCompletion:
    return StepCompletion("Step", "Step-1", value, CodecRegistry())


def test_dec_7_outputs_are_decoded_to_the_type_asked_for() -> None:
    assert completion(b'{"a":1}').decode(dict[str, int]) == {"a": 1}
    with pytest.raises(ValueMappingError, match="output of 'Step-1'"):
        completion(b"1").decode(str)


def test_dec_7_single_output_needs_a_closed_flow_with_one_completion() -> None:
    one = (completion(b"5"),)
    assert FlowResult(FlowStatus.COMPLETED, completions=one).single_output(int) == 5
    for result in (
        FlowResult(FlowStatus.RUNNING, completions=one),
        FlowResult(FlowStatus.COMPLETED),
        FlowResult(FlowStatus.COMPLETED, completions=one * 2),
    ):
        with pytest.raises(ValueError, match="single_output needs a closed Flow with one output"):
            result.single_output(int)


def test_flow_6_all_statuses_but_running_are_terminal() -> None:
    """An execution whose run was continued runs."""
    assert [status.name for status in FlowStatus if not status.is_terminal] == ["RUNNING", "CONTINUED_AS_NEW"]


def test_completions_are_equal_by_what_was_put_out_and_show_no_payload() -> None:
    """[ERR-3]: how an output is decoded is no part of it."""
    assert completion(b"1") == completion(b"1")
    assert len({completion(b"1"), completion(b"1"), completion(b"2")}) == 2
    assert completion(b"1") != b"1"
    assert repr(FlowResult(FlowStatus.COMPLETED, completions=(completion(b'"secret"'),))).endswith(
        "completions=(StepCompletion(step_type='Step', step_execution_id='Step-1'),))"
    )

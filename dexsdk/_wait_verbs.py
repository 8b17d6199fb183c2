"""The verbs of a client that wait, each as a conversation; see `_verbs`."""

from collections.abc import Callable, Sequence
from typing import Any

from dexpb.v1 import flow_service_pb2 as pb
from dexsdk._codec import encode_value
from dexsdk._conversation import Conversation, Request, poll
from dexsdk._durations import Duration, optional_duration_ms
from dexsdk._large_requests import decoded
from dexsdk._names import check_name
from dexsdk._registry import Registry
from dexsdk._wait_for_attribute import WaitForAttribute, discard, split_arguments
from dexsdk._wait_for_flow import WaitForFlow
from dexsdk.attribute import AnyAttribute, key_of
from dexsdk.attribute_match import AttributeMatch, WaitForAttributeOptions
from dexsdk.results import FlowResult
from dexsdk.status import StepOutcome
from dexsdk.step_execution import StepExecutionId


class WaitVerbs:
    """The waiting verbs over one registry."""

    def __init__(self, registry: Registry, load_later: Callable[[bytes], bytes] | None) -> None:
        self._registry = registry
        self._load_later = load_later

    def wait_for_flow(self, flow_id: str, timeout: Duration | None) -> Conversation[FlowResult]:
        """See Client.wait_for_flow."""
        check_name(flow_id, "Flow ID")
        timeout_s = _to_seconds(timeout)
        return WaitForFlow(flow_id).conversation(timeout_s, self._registry.codecs, self._load_later)

    def wait_for_step_completion(
        self, flow_id: str, step: StepExecutionId, timeout: Duration | None
    ) -> Conversation[StepOutcome]:
        """See Client.wait_for_step_completion."""
        check_name(flow_id, "Flow ID")
        return self._await_step(flow_id, self._registry.step_execution_id(step), _to_seconds(timeout))

    def _await_step(self, flow_id: str, step_execution_id: str, timeout_s: float | None) -> Conversation[StepOutcome]:
        def make_request(hold_ms: int, budget_s: float) -> Request[str]:
            message = pb.WaitForStepCompletionRequest(
                flow_id=flow_id, step_execution_id=step_execution_id, wait_ms=hold_ms
            )
            return Request(
                "wait_for_step_completion",
                "WaitForStepCompletion",
                message.SerializeToString(),
                lambda body: pb.WaitForStepCompletionReply.FromString(body).outcome,
                flow_id,
                budget_s=budget_s,
            )

        return StepOutcome((yield from poll(make_request, bool, timeout_s)))

    def wait_for_attribute_equal(
        self, flow_id: str, attribute: AnyAttribute, arguments: Sequence[Any], timeout: Duration | None
    ) -> Conversation[None]:
        """See Client.wait_for_attribute_equal; an instance key for a map, the value, the timeout."""
        instance, expected, timeout = split_arguments(attribute, arguments, timeout)
        asked = self.wait_for_attribute_match(
            flow_id,
            attribute,
            (*instance, AttributeMatch.equal(expected)),
            WaitForAttributeOptions(timeout),
            verb="wait_for_attribute_equal",
        )
        return discard(asked)

    def wait_for_attribute_match(
        self,
        flow_id: str,
        attribute: AnyAttribute,
        arguments: Sequence[Any],
        options: WaitForAttributeOptions | None,
        *,
        verb: str = "wait_for_attribute_match",
    ) -> Conversation[Any]:
        """See Client.wait_for_attribute_match; an instance key for a map, the match, the options."""
        instance, match, options = split_arguments(attribute, arguments, options)
        if not isinstance(match, AttributeMatch):
            raise ValueError(f"{verb} needs an AttributeMatch, not {type(match).__name__}")
        codec = self._registry.codec_of(attribute)
        operand_codec = self._registry.codecs.codec_of(match.value)
        asked = WaitForAttribute(
            verb,
            check_name(flow_id, "Flow ID"),
            key_of(attribute, *instance),
            match.operator,
            encode_value(operand_codec, match.value, f"{verb}, Attribute {attribute.name!r}"),
            match.is_instant,
        )
        timeout = None if options is None else options.timeout
        return decoded(asked.conversation(_to_seconds(timeout)), codec, asked.verb)


def _to_seconds(timeout: Duration | None) -> float | None:
    """Give a timeout in seconds; None stays unlimited."""
    timeout_ms = optional_duration_ms(timeout, "timeout")
    return None if timeout_ms is None else timeout_ms / 1000

"""Which options hold for a Step execution: the Step's own, the movement's over them, recovery Steps inside [STEP-8]."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from dexpb.v1 import frames
from dexsdk._durations import optional_duration_ms
from dexsdk._locks import lock_keys, preload_names
from dexsdk._signature import annotation_text
from dexsdk.errors import FlowDefinitionError
from dexsdk.flow_config import StepDurability
from dexsdk.options import (
    Recovery,
    RetryPolicy,
    StepOptions,
    WaitForFailurePolicy,
    qualified_error_name,
)
from dexsdk.step import Step

_WAIT_FAILURES = {
    None: frames.WAIT_FAILURE_FAIL_FLOW,
    WaitForFailurePolicy.FAIL_FLOW: frames.WAIT_FAILURE_FAIL_FLOW,
    WaitForFailurePolicy.PROCEED: frames.WAIT_FAILURE_PROCEED,
}


_DURABILITIES = {
    None: None,
    StepDurability.SYNC: frames.DURABILITY_SYNC,
    StepDurability.ASYNC: frames.DURABILITY_ASYNC,
}


class TakesInput(Protocol):
    """What can have a recovery Step."""

    @property
    def step_type(self) -> str: ...
    @property
    def input_annotation(self) -> Any: ...


class ResolvedStep(TakesInput, Protocol):
    """What options need to know of a registered Step."""

    @property
    def step(self) -> Step[Any]: ...
    @property
    def has_wait_for(self) -> bool: ...


class _TimeoutHandler:
    """``handle_timeout``, as far as options are concerned."""

    step_type = frames.TIMEOUT_HANDLER
    input_annotation: Any = type(None)


class OptionsResolver:
    """Resolves options of one Flow, remembering the newest answer per Step, as most Steps always say the same."""

    def __init__(
        self, flow_type: str, resolve_step: Callable[[Any], ResolvedStep], definitions: Mapping[str, Any]
    ) -> None:
        self._flow_type = flow_type
        self._definitions = definitions
        self._resolve_step = resolve_step
        self._newest: dict[str, tuple[StepOptions, frames.StepOptions | None]] = {}

    def resolve(self, step: ResolvedStep, override: StepOptions | None) -> frames.StepOptions | None:
        """Give the options of an execution as they travel; None leaves everything to the server's defaults.

        Raises:
            FlowDefinitionError: a recovery Step is not registered, has another input type, or leads back to a Step
                that it recovers.
        """
        options = self._own_options(step) if override is None else self._own_options(step).overridden_by(override)
        if options is _DEFAULT_OPTIONS:
            return None
        newest = self._newest.get(step.step_type)
        if newest is not None and newest[0] == options:
            return newest[1]
        resolved = self._encode(step, options, (step.step_type,))
        self._newest[step.step_type] = (options, resolved)
        return resolved

    def resolve_for_timeout(self, options: StepOptions) -> frames.StepOptions | None:
        """Give the options of ``handle_timeout`` as they travel, whose input is None [TIME-3].

        Raises:
            FlowDefinitionError: the recovery Step is not registered, or takes another input than None.
        """
        return self._encode(_TIMEOUT_HANDLER, options, (frames.TIMEOUT_HANDLER,))

    def _own_options(self, step: ResolvedStep) -> StepOptions:
        if type(step.step).get_step_options is Step.get_step_options:
            return _DEFAULT_OPTIONS
        options = step.step.get_step_options()
        if not isinstance(options, StepOptions):
            raise FlowDefinitionError(
                f"Flow {self._flow_type!r}, Step {step.step_type!r}: get_step_options returned "
                f"{type(options).__name__}, not StepOptions"
            )
        return options

    def _encode(self, step: "TakesInput", options: StepOptions, path: tuple[str, ...]) -> frames.StepOptions | None:
        if options == _DEFAULT_OPTIONS:
            return None
        place = f"Flow {self._flow_type!r}, Step {step.step_type!r}"
        return frames.StepOptions(
            wait_for_timeout_ms=optional_duration_ms(options.wait_for_method_timeout, "wait_for_method_timeout"),
            execute_timeout_ms=optional_duration_ms(options.execute_method_timeout, "execute_method_timeout"),
            wait_for_retry=_encode_retry(options.wait_for_retry),
            execute_retry=_encode_retry(options.execute_retry),
            wait_for_failure=_WAIT_FAILURES[options.wait_for_failure],
            non_retryable_errors=tuple(qualified_error_name(error) for error in options.non_retryable_errors),
            recovery=None if options.recovery is None else self._encode_recovery(step, options.recovery, path),
            heartbeat_timeout_ms=optional_duration_ms(options.heartbeat_timeout, "heartbeat_timeout"),
            wait_for_durability=_DURABILITIES[options.wait_for_durability],
            execute_durability=_DURABILITIES[options.execute_durability],
            priority=options.priority,
            wait_for_locks=lock_keys(options.wait_for_lock_attributes, self._definitions, f"{place}, wait_for"),
            execute_locks=lock_keys(options.execute_lock_attributes, self._definitions, f"{place}, execute"),
            preload=preload_names(options.preload, self._definitions, place),
        )

    def _encode_recovery(self, step: "TakesInput", recovery: Recovery, path: tuple[str, ...]) -> frames.RecoveryStep:
        target = self._resolve_step(recovery.step)
        if target.input_annotation != step.input_annotation:
            raise FlowDefinitionError(
                f"Flow {self._flow_type!r}: recovery Step {target.step_type!r} takes "
                f"{annotation_text(target.input_annotation)}, Step {step.step_type!r} takes "
                f"{annotation_text(step.input_annotation)}"
            )
        if target.step_type in path:
            # Options travel resolved to the end, so a ring of recovery Steps would never end.
            ring = " -> ".join((*path, target.step_type))
            raise FlowDefinitionError(f"Flow {self._flow_type!r}: recovery Steps form a ring: {ring}")
        options = self._own_options(target).overridden_by(recovery.options)
        resolved = self._encode(target, options, (*path, target.step_type))
        return frames.RecoveryStep(target.step_type, target.has_wait_for, resolved)


def _encode_retry(policy: RetryPolicy | None) -> frames.RetryPolicy | None:
    return None if policy is None else policy.to_frame()


_DEFAULT_OPTIONS = StepOptions()
_TIMEOUT_HANDLER = _TimeoutHandler()

"""One active Step execution of a live state: where it stands, what it works on, what it waits for [HIST-1]."""

from dexd.codec.budget import Budget
from dexd.codec.effective_options import effective_options
from dexd.codec.json_parts import Json, show_struct
from dexd.core.config import MAP_KEY_SEPARATOR, KernelConfig
from dexd.core.explain.waits import sub_flow_status
from dexd.core.flow.durability import durability_of
from dexd.core.flow.state import RunState, StepExecution, StepPhase
from dexd.core.values import Condition, ConditionKind, ConditionResult, Wait

STEP_VALUES_BYTES_MAX = 256 * 1024
"""Values of one Step execution that are shown: its input, then what it consumed, then its locals."""


def show_step(run: RunState, step: StepExecution, config: KernelConfig) -> dict[str, Json]:
    """Show it; fields that do not apply to its phase are null."""
    budget = Budget(STEP_VALUES_BYTES_MAX)
    is_running = step.phase is StepPhase.RUNNING
    return {
        "step_execution_id": step.step_execution_id,
        "step_type": step.step_type,
        "from_step": step.from_step,
        "phase": step.phase.name,
        "method": step.method.name,
        "since": _since(step),
        "scheduled_at": step.scheduled_at,
        "attempt": step.attempt,
        "delivery": step.delivery,
        "first_attempt_at": step.first_attempt_at or None,
        "started_at": step.dispatched_at if is_running else None,
        "deadline": step.deadline if is_running else None,
        "retry_at": step.retry_at if step.phase is StepPhase.BACKOFF else None,
        "worker_id": step.worker_id if is_running else None,
        "workers_lost": step.workers_lost,
        "last_failure": show_last_failure(step),
        "recovery_error": None if step.recovery_error is None else show_struct(step.recovery_error),
        "wait_for_failed": step.wait_for_failed,
        "durability": durability_of(run, step, config.step_durability).name,
        "options": effective_options(run, step, config),
        "input": budget.value(step.input),
        "wait": None if step.wait is None else _wait(run, step, step.wait),
        "results": [_result(result, budget) for result in step.results],
        "locals": {name: budget.value(value) for name, value in step.locals.items()},
        "heartbeat": budget.value(step.heartbeat),
    }


def show_last_failure(step: StepExecution) -> Json:
    """The last failed attempt of the Step's method: what, which attempt, on which worker, when [OPT-6]."""
    if step.failure is None:
        return None
    return {
        **show_struct(step.failure),
        "method": step.failed_method.name,
        "attempt": step.failed_attempt,
        "worker_id": step.failed_on or None,
        "at": step.failed_at,
    }


def _since(step: StepExecution) -> int:
    """When its phase began."""
    if step.phase is StepPhase.RUNNING:
        return step.dispatched_at
    if step.phase is StepPhase.BACKOFF:
        return step.failed_at or step.scheduled_at
    return step.phase_since or step.scheduled_at


def _wait(run: RunState, step: StepExecution, wait: Wait) -> dict[str, Json]:
    conditions = [_condition(run, step, index, condition) for index, condition in enumerate(wait.conditions)]
    return {"kind": wait.kind.name, "conditions": conditions, "combinations": wait.combinations}


def _condition(run: RunState, step: StepExecution, index: int, condition: Condition) -> dict[str, Json]:
    """One condition with its status; whether it is enough for the Wait depends on the others too [WAIT-7]."""
    shown: dict[str, Json] = {"kind": condition.kind.name, "condition_id": condition.condition_id or None}
    if condition.kind is ConditionKind.TIMER:
        status = "SKIPPED" if index in step.skipped else "FIRED" if index in step.fired else "PENDING"
        return {**shown, "status": status, "deadline": condition.at_ms}
    if condition.kind is ConditionKind.SUB_FLOW:
        child = next(child for child in step.sub_flows if child.condition_index == index)
        return {
            **shown,
            "status": sub_flow_status(child),
            "flow_id": child.flow_id,
            "flow_type": child.plan.flow_type,
            "run_id": child.run_id or None,
        }
    queued = len(run.channels.get(condition.channel, ()))
    name, separator, instance = condition.channel.partition(MAP_KEY_SEPARATOR)
    return {
        **shown,
        "status": "ENOUGH" if queued >= condition.at_least else "WAITING",
        "channel": name,
        "instance": instance if separator else None,
        "at_least": condition.at_least,
        "at_most": condition.at_most,
        "queued": queued,
    }


def _result(result: ConditionResult, budget: Budget) -> dict[str, Json]:
    """What a condition gave to execute [WAIT-11]; `count` tells how many values there are if not all are shown."""
    shown: dict[str, Json] = {
        "kind": result.kind.name,
        "condition_id": result.condition_id or None,
        "met": result.met,
    }
    if result.kind is ConditionKind.CHANNEL:
        name, separator, instance = result.channel.partition(MAP_KEY_SEPARATOR)
        shown |= {
            "channel": name,
            "instance": instance if separator else None,
            "count": len(result.values),
            "values": budget.values(result.values),
        }
    elif result.sub_flow is not None:
        child = result.sub_flow
        shown |= {
            "flow_id": child.flow_id,
            "status": child.status.name,
            "error_message": child.error_message or None,
            "values": budget.values([done.value for done in child.completions]),
        }
    return shown

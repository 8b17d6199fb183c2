"""Identifiers of the core, one NewType each so that they cannot be mixed up."""

from typing import NewType

FlowId = NewType("FlowId", str)
"""The caller's business name of a Flow [GEN-3]."""
RunId = NewType("RunId", str)
"""One segment of an execution; minted outside the core, opaque [ID-5]."""
StreamId = NewType("StreamId", int)
"""Number of a log stream; every run has one, and every schedule. Allocated by the kernel, ascending."""
ScheduleId = NewType("ScheduleId", str)
"""The caller's name of a schedule [SCHED-1]."""
StepExecutionId = NewType("StepExecutionId", str)
"""``<StepType>-<n>`` [ID-6]."""
CallId = NewType("CallId", str)
"""A Step execution ID, or ``sys:rpc-<request id>``: what a delivery token names beside the run."""
MessageId = NewType("MessageId", str)
"""Server-made, unique and time-ordered [ID-13]."""
RequestId = NewType("RequestId", str)
"""Chosen by the caller; a repeat of it is the same request [GEN-8]."""
WorkerId = NewType("WorkerId", str)
"""App worker ID: names one worker process [QUEUE-2]."""
SessionId = NewType("SessionId", int)
"""Number of a worker session in this server process."""
StreamNumber = NewType("StreamNumber", int)
"""A worker's number for one of its logical streams, unique in its session [WIRE-2]."""
QueueName = NewType("QueueName", str)
"""A Flow type, or an app worker ID."""
CallerId = NewType("CallerId", int)
"""Number of a client call that waits in this server process for an answer."""
JobId = NewType("JobId", str)
"""Names a batch job; made from its request ID."""

TIMEOUT_HANDLER = "sys:timeout_handler"
"""Step type under which `handle_timeout` runs; workers whose Flow has it announce it [TIME-3]."""
TIMEOUT_HANDLER_ID = StepExecutionId(f"{TIMEOUT_HANDLER}-1")
"""The Flow's timer, and its handler once the time is over [TIME-1, ID-12]."""


def rpc_call_id(request_id: RequestId) -> CallId:
    """The call ID of an RPC; its idempotency key ends with the same text [ID-11]."""
    return CallId(f"sys:rpc-{request_id}")

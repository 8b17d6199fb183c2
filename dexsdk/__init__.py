"""Write durable Flows, run them in Workers, and drive them from Clients [SDK-1].

Only the names exported here are the SDK's surface; modules with an underscore may change at any time.
"""

from dexsdk._codec import Codec, CodecRegistry, JsonCodec
from dexsdk._readiness import PullQueueState, PullRegistrationState
from dexsdk._readiness_app import readiness_app
from dexsdk._registry import Registry
from dexsdk._schedules import AsyncSchedules, Schedules
from dexsdk.async_client import AsyncClient
from dexsdk.attribute import AnyAttribute, Attribute, AttributeLock, AttributeMap
from dexsdk.attribute_index import AttributeIndex, IndexType
from dexsdk.attribute_match import AttributeMatch, WaitForAttributeOptions
from dexsdk.batch import Batch
from dexsdk.batch_results import BatchInfo
from dexsdk.blob_cache import BlobCache, BlobCacheConfig, open_blob_cache
from dexsdk.channel import AnyChannel, Channel, ChannelMap
from dexsdk.client import Client
from dexsdk.condition import Condition
from dexsdk.connection import ClientOptions, PullWorkerOptions, WorkerOptions
from dexsdk.context import Context
from dexsdk.credentials import Credential, FileCredential, TlsOptions
from dexsdk.decision import (
    UNSET,
    StepDecision,
    StepMovement,
    dead_end,
    force_complete,
    force_complete_if_channels_empty,
    force_fail,
    go_to,
    go_to_many,
    go_to_multi,
    graceful_complete,
)
from dexsdk.errors import (
    ChannelMessageNotFoundError,
    DexServiceError,
    FlowAlreadyStartedError,
    FlowDefinitionError,
    FlowNotActiveError,
    FlowNotFoundError,
    InvalidQueryError,
    InvalidStepResultError,
    LongPollTimeoutError,
    NonRetryableError,
    NoWorkerAvailableError,
    PullRegistrationError,
    RequestConflictError,
    RetryAfter,
    RpcLockConflictError,
    ScheduleAlreadyExistsError,
    ScheduleNotFoundError,
    ValueMappingError,
    ValueTooLargeError,
    WorkerInvocationError,
)
from dexsdk.flow import Flow
from dexsdk.flow_config import ActiveStepSearchMode, FlowConfig, StepDurability
from dexsdk.flow_state import Blocker, FlowExplanation, FlowState
from dexsdk.options import (
    FlowTimeoutPolicy,
    IdReusePolicy,
    RetryPolicy,
    StartFlowOptions,
    StepOptions,
    StopFlowOptions,
    StopType,
    WaitForFailurePolicy,
)
from dexsdk.results import (
    FlowCount,
    FlowInfo,
    FlowResult,
    HealthInfo,
    HistoryEvent,
    HistoryPage,
    PendingMessage,
    RecoveryError,
    SearchFlowEntry,
    SearchFlowsPage,
    StepCompletion,
    StopResult,
)
from dexsdk.rpc import RPCResult, rpc
from dexsdk.schedules import (
    FoldPolicy,
    GapPolicy,
    OverlapPolicy,
    ScheduleAction,
    ScheduledExecution,
    ScheduleInfo,
    ScheduleOutcome,
    ScheduleOutcomeKind,
    ScheduleOutcomePage,
    SchedulePage,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleStatus,
)
from dexsdk.schema import PersistenceSchema
from dexsdk.status import FlowErrorType, FlowStatus, SkipTimerOutcome, StepOutcome, StopOutcome
from dexsdk.step import Step, StepList
from dexsdk.step_execution import StepExecutionId
from dexsdk.sub_flow import SubFlow, SubFlowOptions, SubFlowReusePolicy
from dexsdk.time_travel import TimeTravelOptions, TimeTravelStepMethod, TimeTravelType
from dexsdk.timer import Timer, TimerId
from dexsdk.wait import ConditionCombination, Wait
from dexsdk.worker import AsyncWorker, Worker

__all__ = [
    "UNSET",
    "ActiveStepSearchMode",
    "AnyAttribute",
    "AnyChannel",
    "AsyncClient",
    "AsyncSchedules",
    "AsyncWorker",
    "Attribute",
    "AttributeIndex",
    "AttributeLock",
    "AttributeMap",
    "AttributeMatch",
    "Batch",
    "BatchInfo",
    "BlobCache",
    "BlobCacheConfig",
    "Blocker",
    "Channel",
    "ChannelMap",
    "ChannelMessageNotFoundError",
    "Client",
    "ClientOptions",
    "Codec",
    "CodecRegistry",
    "Condition",
    "ConditionCombination",
    "Context",
    "Credential",
    "DexServiceError",
    "FileCredential",
    "Flow",
    "FlowAlreadyStartedError",
    "FlowConfig",
    "FlowCount",
    "FlowDefinitionError",
    "FlowErrorType",
    "FlowExplanation",
    "FlowInfo",
    "FlowNotActiveError",
    "FlowNotFoundError",
    "FlowResult",
    "FlowState",
    "FlowStatus",
    "FlowTimeoutPolicy",
    "FoldPolicy",
    "GapPolicy",
    "HealthInfo",
    "HistoryEvent",
    "HistoryPage",
    "IdReusePolicy",
    "IndexType",
    "InvalidQueryError",
    "InvalidStepResultError",
    "JsonCodec",
    "LongPollTimeoutError",
    "NoWorkerAvailableError",
    "NonRetryableError",
    "OverlapPolicy",
    "PendingMessage",
    "PersistenceSchema",
    "PullQueueState",
    "PullRegistrationError",
    "PullRegistrationState",
    "PullWorkerOptions",
    "RPCResult",
    "RecoveryError",
    "Registry",
    "RequestConflictError",
    "RetryAfter",
    "RetryPolicy",
    "RpcLockConflictError",
    "ScheduleAction",
    "ScheduleAlreadyExistsError",
    "ScheduleInfo",
    "ScheduleNotFoundError",
    "ScheduleOutcome",
    "ScheduleOutcomeKind",
    "ScheduleOutcomePage",
    "SchedulePage",
    "SchedulePolicy",
    "ScheduleSpec",
    "ScheduleStatus",
    "ScheduledExecution",
    "Schedules",
    "SearchFlowEntry",
    "SearchFlowsPage",
    "SkipTimerOutcome",
    "StartFlowOptions",
    "Step",
    "StepCompletion",
    "StepDecision",
    "StepDurability",
    "StepExecutionId",
    "StepList",
    "StepMovement",
    "StepOptions",
    "StepOutcome",
    "StopFlowOptions",
    "StopOutcome",
    "StopResult",
    "StopType",
    "SubFlow",
    "SubFlowOptions",
    "SubFlowReusePolicy",
    "TimeTravelOptions",
    "TimeTravelStepMethod",
    "TimeTravelType",
    "Timer",
    "TimerId",
    "TlsOptions",
    "ValueMappingError",
    "ValueTooLargeError",
    "Wait",
    "WaitForAttributeOptions",
    "WaitForFailurePolicy",
    "Worker",
    "WorkerInvocationError",
    "WorkerOptions",
    "dead_end",
    "force_complete",
    "force_complete_if_channels_empty",
    "force_fail",
    "go_to",
    "go_to_many",
    "go_to_multi",
    "graceful_complete",
    "open_blob_cache",
    "readiness_app",
    "rpc",
]

from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ClientBatch(_message.Message):
    __slots__ = ("requests",)
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    requests: _containers.RepeatedCompositeFieldContainer[ClientRequest]
    def __init__(self, requests: _Optional[_Iterable[_Union[ClientRequest, _Mapping]]] = ...) -> None: ...

class ClientRequest(_message.Message):
    __slots__ = ("id", "method", "body")
    ID_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    id: int
    method: str
    body: bytes
    def __init__(self, id: _Optional[int] = ..., method: _Optional[str] = ..., body: _Optional[bytes] = ...) -> None: ...

class ServerBatch(_message.Message):
    __slots__ = ("replies",)
    REPLIES_FIELD_NUMBER: _ClassVar[int]
    replies: _containers.RepeatedCompositeFieldContainer[ServerReply]
    def __init__(self, replies: _Optional[_Iterable[_Union[ServerReply, _Mapping]]] = ...) -> None: ...

class ServerReply(_message.Message):
    __slots__ = ("id", "code", "body", "status")
    ID_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    id: int
    code: int
    body: bytes
    status: bytes
    def __init__(self, id: _Optional[int] = ..., code: _Optional[int] = ..., body: _Optional[bytes] = ..., status: _Optional[bytes] = ...) -> None: ...

class RetryPolicy(_message.Message):
    __slots__ = ("initial_interval_ms", "backoff_coefficient", "maximum_interval_ms", "maximum_attempts", "total_duration_ms", "jitter")
    INITIAL_INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_COEFFICIENT_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    JITTER_FIELD_NUMBER: _ClassVar[int]
    initial_interval_ms: int
    backoff_coefficient: float
    maximum_interval_ms: int
    maximum_attempts: int
    total_duration_ms: int
    jitter: float
    def __init__(self, initial_interval_ms: _Optional[int] = ..., backoff_coefficient: _Optional[float] = ..., maximum_interval_ms: _Optional[int] = ..., maximum_attempts: _Optional[int] = ..., total_duration_ms: _Optional[int] = ..., jitter: _Optional[float] = ...) -> None: ...

class RecoveryStep(_message.Message):
    __slots__ = ("step_type", "has_wait_for", "options")
    STEP_TYPE_FIELD_NUMBER: _ClassVar[int]
    HAS_WAIT_FOR_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    step_type: str
    has_wait_for: bool
    options: StepOptions
    def __init__(self, step_type: _Optional[str] = ..., has_wait_for: _Optional[bool] = ..., options: _Optional[_Union[StepOptions, _Mapping]] = ...) -> None: ...

class StepOptions(_message.Message):
    __slots__ = ("wait_for_timeout_ms", "execute_timeout_ms", "wait_for_retry", "execute_retry", "wait_for_failure", "non_retryable_errors", "recovery")
    WAIT_FOR_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    EXECUTE_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    WAIT_FOR_RETRY_FIELD_NUMBER: _ClassVar[int]
    EXECUTE_RETRY_FIELD_NUMBER: _ClassVar[int]
    WAIT_FOR_FAILURE_FIELD_NUMBER: _ClassVar[int]
    NON_RETRYABLE_ERRORS_FIELD_NUMBER: _ClassVar[int]
    RECOVERY_FIELD_NUMBER: _ClassVar[int]
    wait_for_timeout_ms: int
    execute_timeout_ms: int
    wait_for_retry: RetryPolicy
    execute_retry: RetryPolicy
    wait_for_failure: int
    non_retryable_errors: _containers.RepeatedScalarFieldContainer[str]
    recovery: RecoveryStep
    def __init__(self, wait_for_timeout_ms: _Optional[int] = ..., execute_timeout_ms: _Optional[int] = ..., wait_for_retry: _Optional[_Union[RetryPolicy, _Mapping]] = ..., execute_retry: _Optional[_Union[RetryPolicy, _Mapping]] = ..., wait_for_failure: _Optional[int] = ..., non_retryable_errors: _Optional[_Iterable[str]] = ..., recovery: _Optional[_Union[RecoveryStep, _Mapping]] = ...) -> None: ...

class StartStep(_message.Message):
    __slots__ = ("step_type", "has_wait_for", "options")
    STEP_TYPE_FIELD_NUMBER: _ClassVar[int]
    HAS_WAIT_FOR_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    step_type: str
    has_wait_for: bool
    options: StepOptions
    def __init__(self, step_type: _Optional[str] = ..., has_wait_for: _Optional[bool] = ..., options: _Optional[_Union[StepOptions, _Mapping]] = ...) -> None: ...

class AttributeValue(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: bytes
    def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class StartFlowRequest(_message.Message):
    __slots__ = ("flow_id", "flow_type", "request_id", "input", "start_step", "resolve_start_step", "attributes", "id_reuse_policy")
    FLOW_ID_FIELD_NUMBER: _ClassVar[int]
    FLOW_TYPE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    START_STEP_FIELD_NUMBER: _ClassVar[int]
    RESOLVE_START_STEP_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    ID_REUSE_POLICY_FIELD_NUMBER: _ClassVar[int]
    flow_id: str
    flow_type: str
    request_id: str
    input: bytes
    start_step: StartStep
    resolve_start_step: bool
    attributes: _containers.RepeatedCompositeFieldContainer[AttributeValue]
    id_reuse_policy: int
    def __init__(self, flow_id: _Optional[str] = ..., flow_type: _Optional[str] = ..., request_id: _Optional[str] = ..., input: _Optional[bytes] = ..., start_step: _Optional[_Union[StartStep, _Mapping]] = ..., resolve_start_step: _Optional[bool] = ..., attributes: _Optional[_Iterable[_Union[AttributeValue, _Mapping]]] = ..., id_reuse_policy: _Optional[int] = ...) -> None: ...

class StartFlowReply(_message.Message):
    __slots__ = ("run_id",)
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    def __init__(self, run_id: _Optional[str] = ...) -> None: ...

class DescribeFlowRequest(_message.Message):
    __slots__ = ("flow_id", "run_id")
    FLOW_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    flow_id: str
    run_id: str
    def __init__(self, flow_id: _Optional[str] = ..., run_id: _Optional[str] = ...) -> None: ...

class FlowInfo(_message.Message):
    __slots__ = ("flow_id", "run_id", "flow_type", "status", "started_at", "closed_at", "ordinal", "first_run_id", "history_events", "error_type", "error_message")
    FLOW_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    FLOW_TYPE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    CLOSED_AT_FIELD_NUMBER: _ClassVar[int]
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    FIRST_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    HISTORY_EVENTS_FIELD_NUMBER: _ClassVar[int]
    ERROR_TYPE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    flow_id: str
    run_id: str
    flow_type: str
    status: str
    started_at: int
    closed_at: int
    ordinal: int
    first_run_id: str
    history_events: int
    error_type: str
    error_message: str
    def __init__(self, flow_id: _Optional[str] = ..., run_id: _Optional[str] = ..., flow_type: _Optional[str] = ..., status: _Optional[str] = ..., started_at: _Optional[int] = ..., closed_at: _Optional[int] = ..., ordinal: _Optional[int] = ..., first_run_id: _Optional[str] = ..., history_events: _Optional[int] = ..., error_type: _Optional[str] = ..., error_message: _Optional[str] = ...) -> None: ...

class ListFlowsRequest(_message.Message):
    __slots__ = ("flow_type", "status", "flow_id_prefix", "page_size", "page_token")
    FLOW_TYPE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    FLOW_ID_PREFIX_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    flow_type: str
    status: str
    flow_id_prefix: str
    page_size: int
    page_token: str
    def __init__(self, flow_type: _Optional[str] = ..., status: _Optional[str] = ..., flow_id_prefix: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListFlowsReply(_message.Message):
    __slots__ = ("flows", "next_page_token")
    FLOWS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    flows: _containers.RepeatedCompositeFieldContainer[FlowInfo]
    next_page_token: str
    def __init__(self, flows: _Optional[_Iterable[_Union[FlowInfo, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class GetHistoryRequest(_message.Message):
    __slots__ = ("flow_id", "run_id", "from_event_id", "page_size")
    FLOW_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    flow_id: str
    run_id: str
    from_event_id: int
    page_size: int
    def __init__(self, flow_id: _Optional[str] = ..., run_id: _Optional[str] = ..., from_event_id: _Optional[int] = ..., page_size: _Optional[int] = ...) -> None: ...

class HistoryEvent(_message.Message):
    __slots__ = ("event_id", "run_id", "at", "kind", "data")
    EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    event_id: int
    run_id: str
    at: int
    kind: str
    data: bytes
    def __init__(self, event_id: _Optional[int] = ..., run_id: _Optional[str] = ..., at: _Optional[int] = ..., kind: _Optional[str] = ..., data: _Optional[bytes] = ...) -> None: ...

class GetHistoryReply(_message.Message):
    __slots__ = ("events", "next_event_id")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[HistoryEvent]
    next_event_id: int
    def __init__(self, events: _Optional[_Iterable[_Union[HistoryEvent, _Mapping]]] = ..., next_event_id: _Optional[int] = ...) -> None: ...

class WatchHistoryRequest(_message.Message):
    __slots__ = ("flow_id", "run_id", "from_event_id")
    FLOW_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    flow_id: str
    run_id: str
    from_event_id: int
    def __init__(self, flow_id: _Optional[str] = ..., run_id: _Optional[str] = ..., from_event_id: _Optional[int] = ...) -> None: ...

class PublishRequest(_message.Message):
    __slots__ = ("flow_id", "run_id", "channel", "values", "request_id")
    FLOW_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    flow_id: str
    run_id: str
    channel: str
    values: _containers.RepeatedScalarFieldContainer[bytes]
    request_id: str
    def __init__(self, flow_id: _Optional[str] = ..., run_id: _Optional[str] = ..., channel: _Optional[str] = ..., values: _Optional[_Iterable[bytes]] = ..., request_id: _Optional[str] = ...) -> None: ...

class PublishReply(_message.Message):
    __slots__ = ("message_ids",)
    MESSAGE_IDS_FIELD_NUMBER: _ClassVar[int]
    message_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, message_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class GetAttributeRequest(_message.Message):
    __slots__ = ("flow_id", "run_id", "key")
    FLOW_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    flow_id: str
    run_id: str
    key: str
    def __init__(self, flow_id: _Optional[str] = ..., run_id: _Optional[str] = ..., key: _Optional[str] = ...) -> None: ...

class GetAttributeReply(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: bytes
    def __init__(self, value: _Optional[bytes] = ...) -> None: ...

class SetAttributeRequest(_message.Message):
    __slots__ = ("flow_id", "run_id", "key", "value", "request_id")
    FLOW_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    flow_id: str
    run_id: str
    key: str
    value: bytes
    request_id: str
    def __init__(self, flow_id: _Optional[str] = ..., run_id: _Optional[str] = ..., key: _Optional[str] = ..., value: _Optional[bytes] = ..., request_id: _Optional[str] = ...) -> None: ...

class SetAttributeReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class InvokeRpcRequest(_message.Message):
    __slots__ = ("flow_id", "run_id", "name", "input", "request_id", "timeout_ms")
    FLOW_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    flow_id: str
    run_id: str
    name: str
    input: bytes
    request_id: str
    timeout_ms: int
    def __init__(self, flow_id: _Optional[str] = ..., run_id: _Optional[str] = ..., name: _Optional[str] = ..., input: _Optional[bytes] = ..., request_id: _Optional[str] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class InvokeRpcReply(_message.Message):
    __slots__ = ("output",)
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    output: bytes
    def __init__(self, output: _Optional[bytes] = ...) -> None: ...

class WaitForFlowRequest(_message.Message):
    __slots__ = ("flow_id", "wait_ms", "first_run_id")
    FLOW_ID_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    FIRST_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    flow_id: str
    wait_ms: int
    first_run_id: str
    def __init__(self, flow_id: _Optional[str] = ..., wait_ms: _Optional[int] = ..., first_run_id: _Optional[str] = ...) -> None: ...

class WaitForFlowReply(_message.Message):
    __slots__ = ("is_terminal", "first_run_id", "status", "error_type", "error_message", "completions")
    IS_TERMINAL_FIELD_NUMBER: _ClassVar[int]
    FIRST_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ERROR_TYPE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    COMPLETIONS_FIELD_NUMBER: _ClassVar[int]
    is_terminal: bool
    first_run_id: str
    status: str
    error_type: str
    error_message: str
    completions: _containers.RepeatedCompositeFieldContainer[StepCompletion]
    def __init__(self, is_terminal: _Optional[bool] = ..., first_run_id: _Optional[str] = ..., status: _Optional[str] = ..., error_type: _Optional[str] = ..., error_message: _Optional[str] = ..., completions: _Optional[_Iterable[_Union[StepCompletion, _Mapping]]] = ...) -> None: ...

class StepCompletion(_message.Message):
    __slots__ = ("step_type", "step_execution_id", "value")
    STEP_TYPE_FIELD_NUMBER: _ClassVar[int]
    STEP_EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    step_type: str
    step_execution_id: str
    value: bytes
    def __init__(self, step_type: _Optional[str] = ..., step_execution_id: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class WaitForStepCompletionRequest(_message.Message):
    __slots__ = ("flow_id", "step_execution_id", "wait_ms")
    FLOW_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    flow_id: str
    step_execution_id: str
    wait_ms: int
    def __init__(self, flow_id: _Optional[str] = ..., step_execution_id: _Optional[str] = ..., wait_ms: _Optional[int] = ...) -> None: ...

class WaitForStepCompletionReply(_message.Message):
    __slots__ = ("outcome",)
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    outcome: str
    def __init__(self, outcome: _Optional[str] = ...) -> None: ...

class StopFlowRequest(_message.Message):
    __slots__ = ("flow_id", "run_id", "type", "reason", "request_id")
    FLOW_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    flow_id: str
    run_id: str
    type: int
    reason: str
    request_id: str
    def __init__(self, flow_id: _Optional[str] = ..., run_id: _Optional[str] = ..., type: _Optional[int] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class StopFlowReply(_message.Message):
    __slots__ = ("outcome", "status")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    outcome: str
    status: str
    def __init__(self, outcome: _Optional[str] = ..., status: _Optional[str] = ...) -> None: ...

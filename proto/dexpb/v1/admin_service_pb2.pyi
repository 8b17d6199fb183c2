from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class CheckHealthRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CheckHealthReply(_message.Message):
    __slots__ = ("condition", "hostname", "commit_ms", "now", "open_runs", "connected_workers", "version")
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    HOSTNAME_FIELD_NUMBER: _ClassVar[int]
    COMMIT_MS_FIELD_NUMBER: _ClassVar[int]
    NOW_FIELD_NUMBER: _ClassVar[int]
    OPEN_RUNS_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_WORKERS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    condition: str
    hostname: str
    commit_ms: float
    now: int
    open_runs: int
    connected_workers: int
    version: str
    def __init__(self, condition: _Optional[str] = ..., hostname: _Optional[str] = ..., commit_ms: _Optional[float] = ..., now: _Optional[int] = ..., open_runs: _Optional[int] = ..., connected_workers: _Optional[int] = ..., version: _Optional[str] = ...) -> None: ...

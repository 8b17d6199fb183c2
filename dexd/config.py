"""Configuration of the server: its sections, and how they are read from file, environment and command line [SURF-13].

A field is a setting: its name without a trailing ``_ms`` is the key, the kind beside its type says how it is read and
which range is allowed. Later sources win: defaults, the TOML file, ``DEXD_SECTION__KEY``, ``--set``, named flags.
This is the only module that reads configuration; it is read once, at start.
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, get_type_hints

import msgspec

from dexd.core.config import KernelConfig
from dexd.core.retention import RetentionConfig
from dexd.core.terms import ActiveStepSearchMode
from dexd.core.values import StepDurability
from dexd.engine.parking_lot import Bounds
from dexd.errors import ConfigError
from dexd.log.connection import Synchronous
from dexd.settings import (
    Address,
    Choice,
    Count,
    Directory,
    Duration,
    ListenAddress,
    OptionalAddress,
    OptionalDirectory,
    SettingKind,
    Size,
)

DEFAULT_FILE: Final = Path("dexd.toml")
"""Read from the working directory when it is there and no file is named."""

NEAR: Final = 0.6
"""How alike an unknown key and a known one must be, from 0 to 1, to be taken for a slip."""


class ApiSection(msgspec.Struct, frozen=True):
    """What clients and workers connect to."""

    listen: Annotated[ListenAddress, Address()] = ListenAddress("127.0.0.1", 8801)
    """Where the server listens; port 0 lets the operating system choose."""
    max_wait_ms: Annotated[int, Duration("1s", "60s")] = 60_000
    """How long one poll is held [WAITAPI-1]."""
    max_message_bytes: Annotated[int, Size("64 KiB", "256 MiB")] = 16 << 20
    """Largest request, reply or session frame [LIM-1]."""
    shutdown_grace_ms: Annotated[int, Duration("100ms", "10m")] = 10_000
    """Within which a stopping server exits [DRAIN-4]."""


class StoreSection(msgspec.Struct, frozen=True):
    """Where and how the log is kept."""

    data_dir: Annotated[Path, Directory()] = Path("./dexd-data")
    """Directory of the log; one server at a time may use it [ARCH-6]."""
    synchronous: Annotated[Synchronous, Choice(("full", "extra"))] = "full"
    """SQLite's synchronous setting; both fsync every commit, extra also the directory."""
    commit_batch_max: Annotated[int, Count(1, 4_000)] = 1_000
    """Events per transaction; the most is what one SQL statement can carry."""
    snapshot_every_events: Annotated[int, Count(1, 100_000)] = 200
    """Events of a run between two snapshots of its state; fewer make a restart faster and commits larger."""
    resident_runs_max: Annotated[int, Count(0, 100_000_000)] = Bounds().runs_max
    """Open runs in memory beyond which those that only wait are parked: kept on disk until something concerns them."""
    resident_bytes_max: Annotated[int, Size("0 B", "1024 GiB")] = Bounds().bytes_max
    """Memory that open runs may take, estimated, beyond which those that only wait are parked."""
    retention_ms: Annotated[int, Duration("0s", "36500d")] = RetentionConfig().retention_ms
    """How long closed runs are kept; 0s keeps them for ever [KEEP-1]."""
    ordinal_retention_ms: Annotated[int, Duration("0s", "36500d")] = RetentionConfig().ordinal_retention_ms
    """How long the last ordinal of a Flow ID is kept after its last run has been deleted; 0s is for ever [ID-10]."""
    archive_dir: Annotated[Path | None, OptionalDirectory()] = None
    """Where executions are written as JSON lines before they are deleted; "" deletes them without [KEEP-2]."""


class MatchingSection(msgspec.Struct, frozen=True):
    """Dispatch and worker sessions; pull-workers.md gives each its meaning."""

    dispatch_wait_ms: Annotated[int, Duration("1ms", "1h")] = 10_000
    sticky_wait_ms: Annotated[int, Duration("0s", "1h")] = 5_000
    accept_timeout_ms: Annotated[int, Duration("10ms", "1h")] = 5_000
    resume_wait_ms: Annotated[int, Duration("0s", "1h")] = 5_000
    ping_interval_ms: Annotated[int, Duration("10ms", "1h")] = 20_000
    """How often each session is pinged [WIRE-7]."""
    pong_timeout_ms: Annotated[int, Duration("10ms", "1h")] = 10_000
    """How long a ping may stay unanswered, and a full session unread, before the session is closed [WIRE-6, WIRE-7]."""
    session_max_age_ms: Annotated[int, Duration("0s", "3650d")] = 86_400_000
    max_concurrent_tasks_cap: Annotated[int, Count(1, 100_000)] = 256
    max_streams: Annotated[int, Count(1, 10_000_000)] = 100_000
    """Logical streams of all workers together [QUEUE-3]."""
    max_queue_length: Annotated[int, Count(1, 4_096)] = 256
    """Characters in a queue's name [QUEUE-3]."""
    max_flow_types: Annotated[int, Count(1, 100_000)] = 256
    """Flow types of one worker [QUEUE-3]."""
    max_flow_type_length: Annotated[int, Count(1, 4_096)] = 256
    """Characters in a Flow type's name [QUEUE-3]."""
    session_buffer_bytes: Annotated[int, Size("64 KiB", "1 GiB")] = 4 << 20
    """What one session buffers towards a worker that does not read [WIRE-6]."""


class FlowSection(msgspec.Struct, frozen=True):
    """What applies where a Flow's code or a call says nothing."""

    method_timeout_ms: Annotated[int, Duration("1ms", "3650d")] = 7_200_000
    """Timeout of a Step method [OPT-1]."""
    step_durability: Annotated[str, Choice(("sync", "async"))] = "sync"
    """Whether what follows a Step's result may start before that is on disk; the method and the Flow win [DUR-2]."""
    rpc_timeout_ms: Annotated[int, Duration("1ms", "60s")] = 10_000
    """Timeout of an RPC handler from hand-over [RPC-7]."""
    rollover_events: Annotated[int, Count(0, 10_000_000)] = 10_000
    """Events after which a run is continued by a new one; the Flow wins, 0 is never [ROLL-2]."""
    active_step_search: Annotated[str, Choice(("all", "with_wait_for", "disabled"))] = "with_wait_for"
    """Which active Steps the search field ActiveStepTypes shows; the Flow's own setting wins [CFG-1]."""


class BlobSection(msgspec.Struct, frozen=True):
    """Large values, which lie beside the log [BLOB-1]."""

    directory: Annotated[Path | None, OptionalDirectory()] = None
    """Where they are kept; unset means `blobs` in the data directory. It belongs to one server."""
    threshold_bytes: Annotated[int, Size("1 KiB", "64 KiB")] = 64 << 10
    """Values of more bytes are uploaded; no more than 64 KiB are taken inline, whatever it says [LIM-1]."""
    max_bytes: Annotated[int, Size("64 KiB", "64 MiB")] = 64 << 20
    """Largest value that is taken [LIM-1]."""


class MetricsSection(msgspec.Struct, frozen=True):
    """Numbers for monitoring; docs/metrics.md lists them."""

    listen: Annotated[ListenAddress | None, OptionalAddress()] = ListenAddress("127.0.0.1", 8803, may_move=True)
    """Where `/metrics` is served over HTTP. If the default port is taken, the next free one is used."""


class ServerConfig(msgspec.Struct, frozen=True):
    """Every setting with its effective value."""

    api: ApiSection = ApiSection()
    store: StoreSection = StoreSection()
    matching: MatchingSection = MatchingSection()
    flow: FlowSection = FlowSection()
    blob: BlobSection = BlobSection()
    metrics: MetricsSection = MetricsSection()

    @property
    def blob_directory(self) -> Path:
        """Where large values are kept."""
        return self.blob.directory or self.store.data_dir / "blobs"

    def kernel(self) -> KernelConfig:
        """The part that the kernel decides by."""
        matching = self.matching
        return KernelConfig(
            dispatch_wait_ms=matching.dispatch_wait_ms,
            sticky_wait_ms=matching.sticky_wait_ms,
            accept_timeout_ms=matching.accept_timeout_ms,
            resume_wait_ms=matching.resume_wait_ms,
            ping_interval_ms=matching.ping_interval_ms,
            pong_timeout_ms=matching.pong_timeout_ms,
            session_max_age_ms=matching.session_max_age_ms,
            max_concurrent_tasks_cap=matching.max_concurrent_tasks_cap,
            max_streams=matching.max_streams,
            max_queue_length=matching.max_queue_length,
            max_flow_types=matching.max_flow_types,
            max_flow_type_length=matching.max_flow_type_length,
            method_timeout_ms=self.flow.method_timeout_ms,
            step_durability=StepDurability[self.flow.step_durability.upper()],
            rollover_events=self.flow.rollover_events,
            active_step_search=ActiveStepSearchMode[self.flow.active_step_search.upper()],
        )

    def retention(self) -> RetentionConfig:
        """How long what is kept."""
        return RetentionConfig(self.store.retention_ms, self.store.ordinal_retention_ms)


class Setting(msgspec.Struct, frozen=True):
    """One row of the table of settings."""

    section: str
    field: str
    kind: SettingKind
    default: object

    @property
    def name(self) -> str:
        """``section.key``."""
        return f"{self.section}.{self.field.removesuffix('_ms')}"


class EffectiveSetting(msgspec.Struct, frozen=True):
    """One setting as it is in force."""

    setting: Setting
    value: object
    origin: str
    """Where the value came from: ``default``, a file, a variable, or a flag."""


class LoadedConfig(msgspec.Struct, frozen=True):
    """The configuration in force and where each value came from."""

    config: ServerConfig
    settings: tuple[EffectiveSetting, ...]


class _Assignment(msgspec.Struct, frozen=True):
    """A value that some source gives to a name that may or may not exist."""

    name: str
    raw: object
    origin: str


def all_settings() -> tuple[Setting, ...]:
    """The table of settings, in the order of the sections."""
    defaults = ServerConfig()
    return tuple(
        Setting(section, field, hint.__metadata__[0], getattr(getattr(defaults, section), field))
        for section in ServerConfig.__struct_fields__
        for field, hint in _annotations(type(getattr(defaults, section))).items()
    )


def load_config(
    file: Path | None, environ: Mapping[str, str], assignments: Sequence[str], flags: Mapping[str, str | None]
) -> LoadedConfig:
    """Read every source and give the configuration in force.

    Args:
        file: The TOML file named by the caller; None reads `DEFAULT_FILE` if it exists.
        environ: The environment; only names of the form ``DEXD_SECTION__KEY`` are settings.
        assignments: ``section.key=value`` texts of ``--set``.
        flags: Flag by setting name, e.g. ``{"api.listen": "127.0.0.1:0"}``; None means not given.

    Raises:
        ConfigError: some source cannot be read, has an unknown key or a value outside its range.
    """
    table = {setting.name: setting for setting in all_settings()}
    faults = _misspelt_variables(environ, table)
    values: dict[str, tuple[object, str]] = {}
    for assignment in _assignments(file, environ, assignments, flags, faults):
        setting = table.get(assignment.name)
        if setting is None:
            faults.append(_unknown(assignment, table))
            continue
        try:
            values[setting.name] = setting.kind.parse(assignment.raw), assignment.origin
        except ValueError:
            faults.append(_invalid(assignment, setting))
    if faults:
        raise ConfigError(tuple(faults))
    effective = tuple(
        EffectiveSetting(setting, *values.get(setting.name, (setting.default, "default"))) for setting in table.values()
    )
    return LoadedConfig(_build(effective), effective)


def render_config(loaded: LoadedConfig) -> str:
    """The effective configuration as a TOML file whose comments say where each value came from."""
    lines: list[str] = []
    section = ""
    for effective in loaded.settings:
        setting = effective.setting
        if setting.section != section:
            section = setting.section
            lines += ["", f"[{section}]"] if lines else [f"[{section}]"]
        key = setting.name.partition(".")[2]
        lines.append(f"{key} = {setting.kind.render(effective.value)}  # {effective.origin}")
    return "\n".join(lines)


def _assignments(
    file: Path | None,
    environ: Mapping[str, str],
    assignments: Sequence[str],
    flags: Mapping[str, str | None],
    faults: list[str],
) -> Iterator[_Assignment]:
    """Every assignment, weakest source first."""
    yield from _from_file(file, faults)
    for variable in sorted(environ):
        prefix, _, rest = variable.partition("_")
        section, separator, key = rest.partition("__")
        if prefix == "DEXD" and separator:
            yield _Assignment(f"{section}.{key}".lower(), environ[variable], variable)
    for text in assignments:
        name, separator, raw = text.partition("=")
        if separator:
            yield _Assignment(name.strip(), raw.strip(), "--set")
        else:
            faults.append(f"--set {text}: must be section.key=value")
    for name, value in flags.items():
        if value is not None:
            yield _Assignment(name, value, f"--{name.partition('.')[2].replace('_', '-')}")


def _from_file(file: Path | None, faults: list[str]) -> Iterator[_Assignment]:
    path = file or DEFAULT_FILE
    if file is None and not path.exists():
        return
    try:
        content = msgspec.toml.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, ValueError) as error:
        faults.append(f"{path}: cannot be read: {error}")
        return
    for section, keys in content.items():
        if isinstance(keys, dict):
            yield from (_Assignment(f"{section}.{key}", raw, str(path)) for key, raw in keys.items())
        else:
            yield _Assignment(section, keys, str(path))


def _unknown(assignment: _Assignment, table: Mapping[str, Setting]) -> str:
    nearest = difflib.get_close_matches(assignment.name, table, n=1, cutoff=NEAR)
    section = assignment.name.partition(".")[0]
    keys = [setting.name.partition(".")[2] for setting in table.values() if setting.section == section]
    if nearest:
        hint = f"did you mean {nearest[0]}?"
    elif keys:
        hint = f"the keys of {section} are {', '.join(keys)}"
    else:
        hint = f"the sections are {', '.join(ServerConfig.__struct_fields__)}"
    return f"{assignment.origin}: unknown key {assignment.name}; {hint}"


def _misspelt_variables(environ: Mapping[str, str], table: Mapping[str, Setting]) -> list[str]:
    """Variables that mean a setting but are not read as one."""
    names = {setting.name.replace(".", "_"): setting.name for setting in table.values()}
    meant = {
        variable: names[name]
        for variable in sorted(environ)
        if (name := variable.removeprefix("DEXD_").lower()) in names and variable.startswith("DEXD_")
    }
    return [
        f"{variable}: two underscores stand between section and key: DEXD_{name.replace('.', '__').upper()}"
        for variable, name in meant.items()
    ]


def _invalid(assignment: _Assignment, setting: Setting) -> str:
    # A value can be long when a file was mixed up with another one.
    shown = repr(assignment.raw)
    shown = shown if len(shown) <= 100 else f"{shown[:100]}..."
    return f"{assignment.origin}: {setting.name} = {shown}: must be {setting.kind.expected}"


def _build(effective: Sequence[EffectiveSetting]) -> ServerConfig:
    values: dict[str, dict[str, object]] = {}
    for item in effective:
        values.setdefault(item.setting.section, {})[item.setting.field] = item.value
    sections = get_type_hints(ServerConfig)
    return ServerConfig(**{name: sections[name](**fields) for name, fields in values.items()})


def _annotations(section: type) -> dict[str, Any]:
    return get_type_hints(section, include_extras=True)

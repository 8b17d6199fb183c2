"""Sources, precedence and validation of the configuration [SURF-13]."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from dexd.config import LoadedConfig, ServerConfig, all_settings, load_config, render_config
from dexd.core.config import KernelConfig
from dexd.core.retention import RetentionConfig
from dexd.errors import ConfigError
from dexd.settings import ListenAddress


def load(
    *,
    file: Path | None = None,
    environ: Mapping[str, str] | None = None,
    assignments: Sequence[str] = (),
    flags: Mapping[str, str | None] | None = None,
) -> LoadedConfig:
    return load_config(file, environ or {}, assignments, flags or {})


def faults(
    *, file: Path | None = None, environ: Mapping[str, str] | None = None, assignments: Sequence[str] = ()
) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as raised:
        load(file=file, environ=environ, assignments=assignments)
    return raised.value.faults


@pytest.fixture
def toml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "some.toml"


def test_without_any_source_the_defaults_of_the_table_are_in_force(toml: Path) -> None:
    loaded = load()
    assert loaded.config == ServerConfig()
    assert str(loaded.config.api.listen) == "127.0.0.1:8801"
    assert loaded.config.api.max_message_bytes == 16 * 1024 * 1024
    assert loaded.config.store.data_dir == Path("./dexd-data")
    assert {setting.origin for setting in loaded.settings} == {"default"}


def test_each_source_overrides_the_weaker_ones(toml: Path) -> None:
    toml.write_text('[matching]\nsticky_wait = "1s"\ndispatch_wait = "1s"\nresume_wait = "1s"\naccept_timeout = "1s"\n')
    environ = {"DEXD_MATCHING__STICKY_WAIT": "2s", "DEXD_MATCHING__DISPATCH_WAIT": "2s", "DEXD_API__LISTEN": "[::1]:1"}
    assignments = ["matching.dispatch_wait=3s", "api.listen=localhost:2"]
    loaded = load(file=toml, environ=environ, assignments=assignments, flags={"api.listen": "127.0.0.1:0"})

    origins = {item.setting.name: item.origin for item in loaded.settings if item.origin != "default"}
    assert origins == {
        "matching.accept_timeout": str(toml),
        "matching.resume_wait": str(toml),
        "matching.sticky_wait": "DEXD_MATCHING__STICKY_WAIT",
        "matching.dispatch_wait": "--set",
        "api.listen": "--listen",
    }
    matching = loaded.config.matching
    assert (matching.accept_timeout_ms, matching.sticky_wait_ms, matching.dispatch_wait_ms) == (1_000, 2_000, 3_000)
    assert loaded.config.api.listen == ListenAddress("127.0.0.1", 0)


def test_default_file_is_read_from_the_working_directory(toml: Path) -> None:
    Path("dexd.toml").write_text("[store]\ncommit_batch_max = 7\n")
    loaded = load()
    assert loaded.config.store.commit_batch_max == 7
    assert [item.origin for item in loaded.settings if item.value == 7] == ["dexd.toml"]


def test_unknown_key_is_an_error_with_the_nearest_known_name(toml: Path) -> None:
    toml.write_text('[matching]\nping_intervall = "1s"\n[stor]\ndata_dir = "x"\n')
    assert faults(file=toml, environ={"DEXD_APY__LISTEN": "x"}, assignments=["flow.timeout_rpc=1s"]) == (
        f"{toml}: unknown key matching.ping_intervall; did you mean matching.ping_interval?",
        f"{toml}: unknown key stor.data_dir; did you mean store.data_dir?",
        "DEXD_APY__LISTEN: unknown key apy.listen; did you mean api.listen?",
        "--set: unknown key flow.timeout_rpc; did you mean flow.rpc_timeout?",
    )


def test_unknown_key_that_is_near_to_none_is_an_error_with_the_names_there_are() -> None:
    assert faults(assignments=["foo.x=1", "blob.gc=1"]) == (
        "--set: unknown key foo.x; the sections are api, store, matching, flow, blob, metrics",
        "--set: unknown key blob.gc; the keys of blob are directory, threshold_bytes, max_bytes",
    )


def test_variable_with_one_underscore_for_two_is_an_error() -> None:
    """[SURF-13] It would be ignored, and the server listen elsewhere than it was told; foreign variables are left."""
    environ = {"DEXD_API_LISTEN": "0.0.0.0:1", "DEXD_STORE_DATA_DIR": "x", "DEXD_HOME": "/opt"}
    assert faults(environ=environ) == (
        "DEXD_API_LISTEN: two underscores stand between section and key: DEXD_API__LISTEN",
        "DEXD_STORE_DATA_DIR: two underscores stand between section and key: DEXD_STORE__DATA_DIR",
    )


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("matching.ping_interval=0s", "a duration from 10ms to 1h"),
        ("matching.ping_interval=2h", "a duration from 10ms to 1h"),
        ("matching.ping_interval=5", "a duration from 10ms to 1h"),
        ("api.max_message_bytes=1 KiB", "a size from 64 KiB to 256 MiB"),
        ("store.commit_batch_max=0", "a whole number from 1 to 4000"),
        ("store.commit_batch_max=1_0", "a whole number from 1 to 4000"),
        ("store.synchronous=off", "one of full, extra"),
        ("store.data_dir=", "a directory path"),
        ("store.retention=30", "a duration from 0s to 36500d"),
        ("store.ordinal_retention=-1d", "a duration from 0s to 36500d"),
        ("store.archive_dir=a\0b", 'a directory path, or "" for none'),
        ("api.listen=8801", "HOST:PORT with a port from 0 to 65535"),
        ("api.listen=127.0.0.1:65536", "HOST:PORT with a port from 0 to 65535"),
        ("api.listen=::1:80", "HOST:PORT with a port from 0 to 65535"),
    ],
)
def test_value_out_of_range_is_an_error_naming_source_key_value_and_range(
    toml: Path, assignment: str, expected: str
) -> None:
    name, _, value = assignment.partition("=")
    assert faults(assignments=[assignment]) == (f"--set: {name} = {value!r}: must be {expected}",)


@pytest.mark.parametrize(
    "line", ["[store]\ncommit_batch_max = true", "[store]\ncommit_batch_max = 1.0", "[matching]\nping_interval = 5"]
)
def test_toml_value_of_another_type_is_an_error(toml: Path, line: str) -> None:
    toml.write_text(line)
    (fault,) = faults(file=toml)
    assert "must be a" in fault


def test_all_faults_are_listed_at_once(toml: Path) -> None:
    assert len(faults(assignments=["api.listen=x", "no.such=1", "nonsense", "flow.rpc_timeout=61s"])) == 4


def test_file_that_is_missing_or_no_toml_is_an_error(toml: Path) -> None:
    assert "cannot be read" in faults(file=toml)[0]
    toml.write_bytes(b"\xff\xfe = [")
    assert "cannot be read" in faults(file=toml)[0]


def test_variables_that_are_not_settings_are_ignored(toml: Path) -> None:
    assert load(environ={"DEXD_TEST_REQUIRE_ALL": "1", "DEXDX__Y": "1", "PATH": "__"}).config == ServerConfig()


def test_shown_configuration_is_a_file_that_gives_the_same_configuration(toml: Path) -> None:
    loaded = load(
        assignments=[
            'store.data_dir=/tmp/a "quoted" \\ dir',
            "flow.rpc_timeout=1500ms",
            "api.listen=[::]:9",
            "metrics.listen=",
            "store.archive_dir=/tmp/archive",
        ]
    )
    shown = render_config(loaded)
    assert 'rpc_timeout = "1500ms"  # --set' in shown
    assert 'method_timeout = "2h"  # default' in shown
    toml.write_text(shown)
    assert load(file=toml).config == loaded.config
    assert len([key for keys in tomllib.loads(shown).values() for key in keys]) == len(all_settings())


def test_keep_1_retention_is_configured_in_the_store_s_section(toml: Path) -> None:
    """[KEEP-1, ID-10, KEEP-2] 0s is for ever, an empty directory is none."""
    assert ServerConfig().retention() == RetentionConfig()
    assert ServerConfig().store.archive_dir is None
    loaded = load(assignments=["store.retention=0s", "store.ordinal_retention=1h", "store.archive_dir="])
    assert loaded.config.retention() == RetentionConfig(0, 3_600_000)
    assert loaded.config.store.archive_dir is None


def test_kernel_configuration_takes_every_setting_and_shares_its_defaults() -> None:
    assert ServerConfig().kernel() == KernelConfig()
    settings = {setting.field for setting in all_settings() if setting.section in {"matching", "flow"}}
    assert set(KernelConfig.__struct_fields__) <= settings


@pytest.mark.parametrize(
    ("listen", "is_loopback"),
    [
        ("127.0.0.1:1", True),
        ("127.8.8.8:1", True),
        ("[::1]:1", True),
        ("localhost:1", True),
        ("0.0.0.0:1", False),
        ("[::]:1", False),
        ("10.0.0.1:1", False),
        ("example.org:1", False),
    ],
)
def test_loopback_addresses_are_told_from_reachable_ones(toml: Path, listen: str, is_loopback: bool) -> None:
    """Listening where other machines can connect is warned about [SEC-1]."""
    assert load(flags={"api.listen": listen}).config.api.listen.is_loopback is is_loopback

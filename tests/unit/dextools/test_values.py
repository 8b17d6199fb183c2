"""Values on the command line become the bytes that the SDK would send [VAL-2, VAL-3]."""

from pathlib import Path

import pytest

from dextools.cli.errors import CommandError, ExitCode
from dextools.cli.values import canonical, definition_key, read_value, read_values, shown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"b": 1, "a": [1.5, null]}', b'{"a":[1.5,null],"b":1}'),
        ("9007199254740993", b"9007199254740993"),
        ("-9223372036854775808", b"-9223372036854775808"),
        ('"\\u0000 \\u2028"', '"\\u0000 \u2028"'.encode()),
        (' "é" ', '"é"'.encode()),
    ],
)
def test_a_value_becomes_canonical_json_with_exact_numbers(text: str, expected: bytes) -> None:
    """[VAL-3] sorted keys, compact, no int through a double."""
    assert canonical(text.encode(), "VALUE") == expected


@pytest.mark.parametrize("text", ["NaN", "Infinity", "1e400", "hello", "", '{"a":', '"\\ud800"'])
def test_what_is_no_json_value_is_refused_as_usage(text: str) -> None:
    """[VAL-2, SURF-20] exit code 2, and nothing was sent."""
    with pytest.raises(CommandError) as refused:
        canonical(text.encode(), "--input")
    assert refused.value.exit_code is ExitCode.USAGE
    assert "--input" in refused.value.message


@pytest.mark.parametrize("text", ["9223372036854775808", '{"deep": [{"x": -9223372036854775809}]}'])
def test_an_int_outside_int64_is_refused_with_its_path(text: str) -> None:
    """[VAL-2] the encoder itself would pass it."""
    with pytest.raises(CommandError, match="int64") as refused:
        canonical(text.encode(), "VALUE")
    assert "$" in refused.value.message


def test_a_value_can_come_from_a_file(tmp_path: Path) -> None:
    """[SURF-21] `--input @file`."""
    file = tmp_path / "order.json"
    file.write_text('{"id": 7}')
    assert read_value(f"@{file}", "--input") == b'{"id":7}'


def test_a_missing_file_is_exit_code_3(tmp_path: Path) -> None:
    """[SURF-20] not found."""
    with pytest.raises(CommandError) as refused:
        read_value(f"@{tmp_path / 'none.json'}", "--input")
    assert refused.value.exit_code is ExitCode.NOT_FOUND


def test_a_stored_value_is_embedded_byte_for_byte() -> None:
    """[VAL-3] no path turns an int64 into a double; no value at all is null."""
    assert bytes(shown(b"9223372036854775807")) == b"9223372036854775807"
    assert bytes(shown(b"")) == b"null"


def test_an_instance_of_a_map_has_its_own_key() -> None:
    """[CHAN-6] name and instance are joined by a character that neither can hold."""
    assert definition_key("seats", None) == "seats"
    assert definition_key("seats", "a/b") == "seats\0a/b"


def test_several_values_come_from_wherever_one_may_and_a_fault_names_its_place(tmp_path: Path) -> None:
    """[SURF-20]"""
    (tmp_path / "order.json").write_text('{"b": 1, "a": 2}')
    assert read_values([f"@{tmp_path / 'order.json'}", "true"]) == [b'{"a":2,"b":1}', b"true"]
    with pytest.raises(CommandError, match="VALUE 2 is not JSON"):
        read_values(["1", "yes"])

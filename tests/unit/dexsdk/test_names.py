"""Which texts may be names [ID-1..3]."""

import pytest

from dexsdk._names import check_name, check_owned_name


@pytest.mark.parametrize(
    "text", ["a/b", "../x", "a%2Fb", "e\u0301", "\u00e9", "\U0001f600", "'", "x y", "\u202e", "~", "\u2028"]
)
def test_id_2_unusual_texts_are_names_and_stay_as_they_are(text: str) -> None:
    assert check_owned_name(text, "Flow ID") == text


@pytest.mark.parametrize("text", ["", "x" * 256, "\U0001f600" * 256])
def test_id_1_names_have_1_to_255_code_points(text: str) -> None:
    with pytest.raises(ValueError, match=f"Flow ID has {len(text)} characters, allowed are 1 to 255"):
        check_name(text, "Flow ID")


def test_id_1_the_longest_name_counts_code_points_not_bytes() -> None:
    assert check_name("\U0001f600" * 255, "Flow ID")


@pytest.mark.parametrize(
    ("text", "code_point"), [("a\0b", "U+0000"), ("a\nb", "U+000A"), ("\x85", "U+0085"), ("\ud800", "U+D800")]
)
def test_id_1_control_characters_and_surrogates_are_refused_by_number(text: str, code_point: str) -> None:
    with pytest.raises(ValueError, match=code_point.replace("+", r"\+")):
        check_name(text, "request_id")


def test_id_1_only_str_is_a_name() -> None:
    with pytest.raises(ValueError, match="must be a str, not int"):
        check_name(5, "Flow ID")  # type: ignore[arg-type] # the wrong type is the case


def test_id_3_reserved_prefix_is_refused_for_names_of_callers_only() -> None:
    assert check_name("sys:x", "instance key") == "sys:x"
    with pytest.raises(ValueError, match="reserved prefix 'sys:'"):
        check_owned_name("sys:x", "Flow ID")

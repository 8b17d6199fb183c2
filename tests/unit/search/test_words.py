"""Words of a full text [SEARCH-5]."""

from hypothesis import given
from hypothesis import strategies as st

from dexd.search.words import indexed_word, indexed_words, words_of


def test_words_are_runs_of_letters_digits_and_marks() -> None:
    assert words_of("Foo-bar, e\u0301t\u00e9 4711 \u4f60\u597d \ue000!") == (
        "foo",
        "bar",
        "e\u0301t\u00e9",
        "4711",
        "\u4f60\u597d",
        "\ue000",
    )
    assert words_of('\0 " * ( ) ^ - : \U0001f600') == ()


def test_case_does_not_count() -> None:
    assert words_of("STRASSE") == words_of("stra\u00dfe")


@given(st.text(max_size=20))
def test_the_index_gets_letters_and_digits_of_ascii_only(text: str) -> None:
    """Nothing that a user writes is read as an expression of the index."""
    assert all(word.isascii() and word.isalnum() for word in indexed_words(text).split())
    assert len(indexed_words(text).split()) == len(words_of(text))


@given(
    st.text(alphabet="az\u00e9\u0301\u00ff\U00010400", min_size=1),
    st.text(alphabet="az\u00e9\u0301"),
    st.text(max_size=3),
)
def test_prefixes_and_only_they_are_prefixes_in_the_index(word: str, other: str, end: str) -> None:
    assert indexed_word(word + end).startswith(indexed_word(word))
    assert indexed_word(other).startswith(indexed_word(word)) is other.startswith(word)

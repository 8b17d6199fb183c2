"""Words of a full text [SEARCH-5].

A word is a run of letters, digits, marks and private characters; case does not count, everything else does. Words go
into the index, and into what is asked of it, in letters and digits of ASCII only: so the index need not know Unicode,
and nothing that a user writes is ever read as an expression of it.
"""

import unicodedata

_WORD_CATEGORIES = frozenset("LNM")
_PRIVATE = "Co"
_ESCAPE = "z"


def words_of(text: str) -> tuple[str, ...]:
    """The words of a text without their case, in order."""
    words: list[str] = []
    word: list[str] = []
    for character in text:
        if is_word_character(character):
            word.append(character)
        elif word:
            words.append("".join(word).casefold())
            word = []
    if word:
        words.append("".join(word).casefold())
    return tuple(words)


def is_word_character(character: str) -> bool:
    """Whether it belongs to a word."""
    if character.isascii():
        return character.isalnum()
    category = unicodedata.category(character)
    return category[0] in _WORD_CATEGORIES or category == _PRIVATE


def indexed_word(word: str) -> str:
    """A word as it stands in the index; a beginning of a word gives a beginning of its text there."""
    if word.isascii() and _ESCAPE not in word:
        return word
    return "".join(map(_indexed_character, word))


def indexed_words(text: str) -> str:
    """A text as it stands in the index."""
    return " ".join(map(indexed_word, words_of(text)))


def _indexed_character(character: str) -> str:
    if character == _ESCAPE:
        return _ESCAPE * 2
    return character if character.isascii() else f"{_ESCAPE}{ord(character):06x}"

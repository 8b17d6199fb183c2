"""What is reported of an exception that a handler raised [OPT-6, RETRY-5, RETRY-6]."""

import traceback

from dexpb.v1 import frames
from dexsdk.errors import NonRetryableError, RetryAfter, ValueTooLargeError
from dexsdk.options import qualified_error_name

DETAIL_BYTES_MAX = 16 * 1024
"""UTF-8 size of a failure's text [OPT-6]."""

STACK_BYTES_MAX = 64 * 1024
"""UTF-8 size of a failure's stack [OPT-6]."""

_INVOKER_MODULE = "dexsdk._invoker"
"""Its frames stand between the transport and the handler and say nothing to users."""

_FINAL_ERRORS = (NonRetryableError, ValueTooLargeError)
"""Exceptions that no policy retries: trying again cannot make a value smaller [RETRY-5, LIM-3]."""


def describe_failure(error: BaseException) -> frames.Failure:
    """Give the failure as it travels; never fails itself, whatever the exception's text is.

    A RetryAfter is reported with the text of its cause. Whether a listed class of ``non_retryable_errors`` applies is
    for the server to say, which has the options that were fixed when the Step was scheduled [STEP-8]; it is told the
    names of all classes that the exception is an instance of.
    """
    reported = _cause_of(error)
    classes = [cls for cls in type(error).__mro__ if issubclass(cls, BaseException)]
    return frames.Failure(
        error_type=repaired(type(reported).__name__, DETAIL_BYTES_MAX),
        detail=repaired(_text_of(reported), DETAIL_BYTES_MAX),
        stack=repaired(_stack_of(reported), STACK_BYTES_MAX),
        non_retryable=isinstance(error, _FINAL_ERRORS),
        retry_after_ms=error.delay_ms if isinstance(error, RetryAfter) else None,
        error_classes=tuple(qualified_error_name(cls) for cls in classes),
    )


def repaired(text: str, bytes_max: int) -> str:
    """Make text fit for the wire: surrogates become U+FFFD, and what exceeds the size is cut at a character."""
    try:
        data = text.encode()
    except UnicodeEncodeError:
        data = "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in text).encode()
    return data[:bytes_max].decode(errors="ignore")


def _cause_of(error: BaseException) -> BaseException:
    if not isinstance(error, RetryAfter):
        return error
    cause = error.cause if error.cause is not None else error.__cause__
    return error if cause is None else cause


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as failure:  # noqa: BLE001 -- a __str__ that raises must not block the report [OPT-6]
        return f"<the text of {type(error).__name__} cannot be read: {type(failure).__name__}>"


def _stack_of(error: BaseException) -> str:
    """Give the stack from the handler on; the end of a stack says most, so a long one loses its beginning."""
    entry = error.__traceback__
    while entry is not None and entry.tb_frame.f_globals.get("__name__") == _INVOKER_MODULE:
        entry = entry.tb_next
    try:
        text = "".join(traceback.format_exception(type(error), error, entry))
    except Exception as failure:  # noqa: BLE001 -- nothing about the exception may block the report [OPT-6]
        return f"<the stack cannot be read: {type(failure).__name__}>"
    return text[-STACK_BYTES_MAX:]

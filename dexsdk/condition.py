"""What a Wait can wait for [WAIT-2]."""

from abc import ABC, abstractmethod

from dexpb.v1 import frames
from dexsdk._names import check_name

CONDITIONS_MAX = 1_000
"""Conditions in one Wait [WAIT-12]."""


class Condition(ABC):
    """One condition of a Wait; made by ``Timer`` and by the ``for_...`` methods of Channels."""

    def __init__(self, condition_id: str | None) -> None:
        self.condition_id = None if condition_id is None else check_name(condition_id, "condition ID")

    @abstractmethod
    def to_frame(self) -> frames.Condition:
        """Give the condition as it travels."""

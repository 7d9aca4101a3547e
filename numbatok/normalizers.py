"""Normalizers: what is done to a text, between its raw added tokens, before it is split."""

from abc import ABC, abstractmethod


class Normalizer(ABC):
    """A change of text. Normalizers are immutable, hashable, and equal when they do the same."""

    @abstractmethod
    def normalize(self, text: str) -> str:
        """The text after the change."""

    @abstractmethod
    def leaves(self, text: str) -> bool:
        """Whether the text is surely as it would be after the change; a cheap test, which may say no in doubt."""

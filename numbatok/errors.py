"""Exceptions: the public one, and two that carry a kernel's finding to where it is put into words."""


class VocabularyError(ValueError):
    """A vocabulary, rank file or tokenizer file that breaks a rule; the message says which entry and what is wanted."""


class DisallowedToken(Exception):
    """An added token that the caller refuses is in a text: which document, byte offset, and index of the token."""

    def __init__(self, document: int, position: int, token: int) -> None:
        self.document, self.position, self.token = document, position, token


class UnknownId(Exception):
    """An id to decode is not in the vocabulary: its place in the flat ids."""

    def __init__(self, place: int) -> None:
        self.place = place

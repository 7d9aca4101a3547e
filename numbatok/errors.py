"""Exceptions: the public one, and two that carry a kernel's finding to where it is put into words."""


class VocabularyError(ValueError):
    """A vocabulary, rank file or tokenizer file that breaks a rule; the message says which entry and what is wanted.

    >>> numbatok.Tokenizer.from_str("{}")
    Traceback (most recent call last):
        ...
    numbatok.errors.VocabularyError: not a tokenizer.json: wanted an object with a "model"
    """


class DisallowedToken(Exception):
    """An added token that the caller refuses is in a text: which text, or second text of a pair, and where.

    ``position`` is a byte offset, ``token`` the token's index.
    """

    def __init__(self, document: int, position: int, token: int, second: bool = False) -> None:
        self.document, self.position, self.token, self.second = document, position, token, second


class UnknownId(Exception):
    """An id to decode is not in the vocabulary: its place in the flat ids."""

    def __init__(self, place: int) -> None:
        self.place = place

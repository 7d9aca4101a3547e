"""Rank files, tiktoken's format: a line for each token, its base64, a space and its rank."""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence

import numpy as np

from numbatok.added_tokens import AddedToken, AddedTokens
from numbatok.errors import VocabularyError
from numbatok.parts import Parts
from numbatok.patterns.rules import Split, SplitRule
from numbatok.vocabulary import Vocabulary

_LINES = re.compile(rb"(?:[A-Za-z0-9+/]+={0,2} [0-9]{1,10}\r?\n)*(?:[A-Za-z0-9+/]+={0,2} [0-9]{1,10})?")


def looks_like(head: bytes) -> bool:
    """Whether a file that begins so is a rank file."""
    return re.match(rb"[A-Za-z0-9+/]+={0,2} [0-9]+\s", head) is not None


def parse_ranks(content: bytes) -> tuple[list[bytes], list[int]]:
    """(tokens, ranks) of a rank file, in its order."""
    if _LINES.fullmatch(content):
        fields = content.split()
        try:
            return list(map(binascii.a2b_base64, fields[::2])), list(map(int, fields[1::2]))
        except ValueError:  # the loop below tells which line it is
            pass
    tokens, ranks = [], []
    for number, line in enumerate(content.splitlines(), 1):
        if not line:
            continue
        try:
            encoded, rank = line.split()
            # Whisper's file has the empty token so.
            tokens.append(b"" if encoded == b"=" else base64.b64decode(encoded, validate=True))
            ranks.append(int(rank))
        except ValueError as error:
            raise VocabularyError(
                f"line {number} is {line[:60]!r}; wanted base64, a space and a rank ({error})"
            ) from None
    return tokens, ranks


def rank_file(tokens: Sequence[bytes], ranks: Sequence[int]) -> bytes:
    """The rank file of tokens and their ranks: the inverse of :func:`parse_ranks`."""
    lines = [
        b"%b %d\n" % (binascii.b2a_base64(token, newline=False), rank)
        for token, rank in zip(tokens, ranks, strict=True)
    ]
    return b"".join(lines)


def build(
    tokens: Sequence[bytes],
    ranks: Sequence[int],
    pattern: str | None,
    special_tokens: Mapping[str, int] | None,
    name: str,
) -> Parts:
    """The parts of a tokenizer of tokens with their ranks, which are its ids, and what no rank file says."""
    if pattern is None:
        raise VocabularyError(
            "a rank file does not say how text is cut: pass pattern=, the regular expression that the model's code "
            "has, and special_tokens=, its special tokens with their ids"
        )
    check_pattern(pattern)
    added = special_added_tokens(special_tokens or {})
    # What no int64 holds is refused below, as an id out of range.
    fit = ranks and min(ranks) >= 0 and max(ranks) < 1 << 63
    numbers = np.fromiter(ranks, np.int64, len(ranks)) if fit else None
    if numbers is not None and (np.diff(numbers) < 0).any():
        order = np.argsort(numbers, kind="stable").tolist()
        tokens, ranks = [tokens[i] for i in order], [ranks[i] for i in order]
    unreachable: tuple[tuple[int, bytes], ...] = ()
    if b"" in tokens:  # no text becomes it
        unreachable = tuple((rank, token) for token, rank in zip(tokens, ranks, strict=True) if not token)
        ranks = [rank for token, rank in zip(tokens, ranks, strict=True) if token]
        tokens = list(filter(None, tokens))
    vocabulary = Vocabulary.from_ranks(tokens, ranks)
    check_ids(vocabulary, added)
    return Parts(vocabulary, AddedTokens(added), matches_of(pattern), unreachable=unreachable, name=name)


def matches_of(pattern: str) -> SplitRule:
    """The split rule that tiktoken makes of a pattern: its matches, without the text between them."""
    return (Split(pattern, "removed", invert=True),)


def check_ids(vocabulary: Vocabulary, added: Sequence[AddedToken]) -> None:
    """Refuse an added token with the id of a token of other bytes."""
    owners = {token.id: token.content for token in added}
    shared = np.flatnonzero(np.isin(vocabulary.ids, [number for number in owners if 0 <= number < 1 << 32]))
    for symbol in shared.tolist():
        token, number = vocabulary.tokens[symbol], int(vocabulary.ids[symbol])
        if token != owners[number].encode("utf-8", "surrogatepass"):
            raise VocabularyError(f"id {number} is given to the token {token!r} and to {owners[number]!r}")


def check_pattern(pattern: object) -> None:
    """Refuse a pattern that is no string."""
    if not isinstance(pattern, str):
        raise TypeError(f"pattern must be the str of a regular expression, not {type(pattern).__name__}")


def special_added_tokens(special_tokens: object) -> list[AddedToken]:
    """The special tokens of a mapping from their text to their ids."""
    if not isinstance(special_tokens, Mapping):
        raise TypeError(
            f"special_tokens must be a mapping of special tokens to their ids, not {type(special_tokens).__name__}"
        )
    for content, number in special_tokens.items():
        if not isinstance(content, str) or not isinstance(number, int) or isinstance(number, bool):
            raise TypeError(f"special_tokens has {content!r}: {number!r}; wanted a str and its int id")
    return [AddedToken(content, number) for content, number in special_tokens.items()]

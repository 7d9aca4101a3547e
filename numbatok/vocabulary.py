"""Vocabularies: the tokens' bytes and ids, and the rule that ranks merges, as flat arrays.

Every token has a *symbol*, its number in order of building, which is what the merge tables hold; ids may have gaps and
any order, symbols do not. Invariants, checked here once so that kernels need not: no two tokens have the same bytes or
the same id, no token is empty, every merge makes a token, and each of the 256 bytes is a token of a rank file.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt

from numbatok.errors import VocabularyError
from numbatok.kernels import dtypes

MAX_SYMBOLS = int(dtypes.NO_SYMBOL)
MAX_RANKS = (1 << dtypes.RANK_BITS) - 1  # the last value stands for an empty slot
LONGEST_AFFIX = 255  # bytes; with byte_fallback each may become an id of every unit

EMPTY_TOKEN = "the empty token is in the vocabulary; every token needs at least one byte"

#: What a model's initial symbols stand for.
Unit = Literal["byte", "character"]


def _as_numbers(ids: Sequence[int] | npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
    """The given ids as int64, or the error for one that is out of range by far."""
    try:
        return np.asarray(ids, np.int64)
    except OverflowError:
        worst = next(number for number in ids if not 0 <= number < 1 << 32)
        raise VocabularyError(f"id {worst} is not between 0 and 2**32 - 1") from None


def _check_size(tokens: int, merges: int = 0) -> None:
    if tokens > MAX_SYMBOLS:
        raise VocabularyError(f"{tokens} tokens given; at most {MAX_SYMBOLS} are supported")
    if merges > MAX_RANKS:
        raise VocabularyError(f"{merges} merges given; at most {MAX_RANKS} are supported")


def _check_ids(ids: npt.NDArray[np.int64], tokens: Sequence[object]) -> None:
    """Refuse an id out of range, and one that is given to two of the tokens."""
    if len(ids) and (ids.min() < 0 or ids.max() >= 1 << 32):
        worst = int(ids[np.argmax((ids < 0) | (ids >= 1 << 32))])
        raise VocabularyError(f"id {worst} is not between 0 and 2**32 - 1")
    in_order = np.sort(ids)
    twice = in_order[1:][in_order[1:] == in_order[:-1]]
    if len(twice):
        owners = [tokens[i] for i in np.flatnonzero(ids == twice[0])[:2]]
        raise VocabularyError(f"id {twice[0]} is given to two tokens, {owners[0]!r} and {owners[1]!r}")


@dataclass(frozen=True)
class Options:
    """What of a merge list's model differs from plain byte pair encoding, as ``tokenizers.models.BPE`` has it.

    Attributes
    ----------
    unit : ``"byte"``, where the model sees bytes, each as a character of the byte alphabet; or ``"character"``
    unk : the token for a unit that is no token; without one the unit is dropped
    fuse_unk : whether such units in a row are one token
    byte_fallback : whether such a unit becomes the tokens ``<0xXX>`` of its bytes, where all of these are there
    prefix : what the tokens of all but a pretoken's first unit begin with (continuing_subword_prefix)
    suffix : what the token of a pretoken's last unit ends with (end_of_word_suffix)
    dropout : the probability with which a merge that is due is put off
    """

    unit: Unit = "byte"
    unk: bytes | None = None
    fuse_unk: bool = False
    byte_fallback: bool = False
    prefix: bytes = b""
    suffix: bytes = b""
    dropout: float = 0.0

    def __post_init__(self) -> None:
        if self.unit not in ("byte", "character"):
            raise VocabularyError(f'the unit is {self.unit!r}; wanted "byte" or "character"')
        if not 0 <= self.dropout <= 1:  # nor is NaN
            raise VocabularyError(f"dropout is {self.dropout}; wanted a probability, from 0 to 1")
        for name, affix in (("prefix", self.prefix), ("suffix", self.suffix)):
            if len(affix) > LONGEST_AFFIX:
                raise VocabularyError(f"the {name} has {len(affix)} bytes; at most {LONGEST_AFFIX} are supported")


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Tokens and merge rule of one tokenizer, without added tokens.

    Attributes
    ----------
    data : uint8, the bytes of all tokens one after the other, in order of their symbols
    starts : int64[symbols + 1], byte offsets into ``data``
    ids : uint32[symbols], the id of each symbol
    merges : uint32[merges, 3] rows (left, right, made) of symbols in order of rank, or None where any two neighbours
        merge whose concatenation is a token, and its symbol is the rank (a rank file)
    whole_first : whether a pretoken that is a token is that token, even where merging gives others
    options : how the model differs from plain byte pair encoding
    """

    data: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int64]
    ids: npt.NDArray[np.uint32]
    merges: npt.NDArray[np.uint32] | None
    whole_first: bool
    options: Options = Options()

    def __len__(self) -> int:
        return len(self.ids)

    def __eq__(self, other: object) -> bool:
        """Whether two vocabularies have the same tokens, ids, ranks and options."""
        if not isinstance(other, Vocabulary):
            return NotImplemented
        return self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    def _content(self) -> tuple[object, ...]:
        merges = None if self.merges is None else self.merges.tobytes()
        return self.data.tobytes(), self.starts.tobytes(), self.ids.tobytes(), merges, self.whole_first, self.options

    def __reduce__(self) -> tuple[type["Vocabulary"], tuple[object, ...]]:
        return Vocabulary, (self.data, self.starts, self.ids, self.merges, self.whole_first, self.options)

    @functools.cached_property
    def missing_bytes(self) -> bytes | None:
        """The bytes that are no tokens, where bytes are merged as they are; None where an option says else."""
        options = self.options
        if options.unit != "byte" or options.prefix or options.suffix or options.dropout:
            return None
        single = self.data[self.starts[:-1][np.diff(self.starts) == 1]]
        return bytes(np.setdiff1d(np.arange(256), single).tolist())

    @functools.cached_property
    def is_plain(self) -> bool:
        """Whether bytes are merged as they are: each of the 256 is a token, and no option says else."""
        return self.missing_bytes == b""

    def _between(self, prefix: bytes, suffix: bytes, least: int, most: int) -> npt.NDArray[np.int64]:
        """The symbols of the tokens with ``least`` to ``most`` bytes between a prefix and a suffix."""
        widths = np.diff(self.starts) - len(prefix) - len(suffix)
        symbols = np.flatnonzero((widths >= least) & (widths <= most))
        for affix, places in ((prefix, self.starts[:-1]), (suffix, self.starts[1:] - len(suffix))):
            for offset, wanted in enumerate(affix):
                symbols = symbols[self.data[places[symbols] + offset] == wanted]
        return symbols

    def symbol_of(self, token: bytes) -> int | None:
        """The symbol of a token, or None for what is none."""
        found = self._between(token, b"", 0, 0)
        return int(found[0]) if len(found) else None

    def byte_tokens(self) -> dict[int, int]:
        """The symbol of each byte's ``<0xXX>``, where there is one."""
        spellings = {b"%02X" % byte: byte for byte in range(256)}
        found = {}
        for symbol in self._between(b"<0x", b">", 2, 2).tolist():
            digits = self.data[self.starts[symbol] + 3 : self.starts[symbol] + 5].tobytes()
            if digits in spellings:
                found[spellings[digits]] = symbol
        return found

    def units(self, prefix: bytes = b"", suffix: bytes = b"") -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """(units, symbols): the tokens that are one unit between ``prefix`` and ``suffix``, by byte or code point."""
        symbols = self._between(prefix, suffix, 1, 1 if self.options.unit == "byte" else 4)
        begins = self.starts[symbols] + len(prefix)
        widths = self.starts[symbols + 1] - len(suffix) - begins
        points = self.data[begins].astype(np.int64)
        if self.options.unit == "byte":
            return points, symbols
        whole = points < 0x80
        for width, first, last in ((2, 0xC2, 0xDF), (3, 0xE0, 0xEF), (4, 0xF0, 0xF4)):
            found = np.flatnonzero((widths == width) & (points >= first) & (points <= last))
            value, good = points[found] & (0x7F >> width), np.ones(len(found), np.bool_)
            for offset in range(1, width):
                byte = self.data[begins[found] + offset].astype(np.int64)
                value, good = value << 6 | byte & 0x3F, good & (byte & 0xC0 == 0x80)
            points[found], whole[found] = value, good
        whole &= (widths == 1) == (points < 0x80)
        return points[whole], symbols[whole]

    @functools.cached_property
    def tokens(self) -> list[bytes]:
        """The bytes of each symbol."""
        data, edges = self.data.tobytes(), self.starts.tolist()
        return [data[begin:end] for begin, end in pairwise(edges)]

    @functools.cached_property
    def id_of(self) -> dict[bytes, int]:
        """The id of each token."""
        return dict(zip(self.tokens, self.ids.tolist(), strict=True))

    @functools.cached_property
    def token_of(self) -> dict[int, bytes]:
        """The token of each id."""
        return dict(zip(self.ids.tolist(), self.tokens, strict=True))

    @classmethod
    def from_ranks(
        cls, tokens: Sequence[bytes], ids: Sequence[int] | npt.NDArray[np.uint32] | None = None
    ) -> "Vocabulary":
        """A vocabulary whose merges follow from its ranks, as tiktoken's do.

        Parameters
        ----------
        tokens : in order of rank
        ids : of each token, increasing; its place if not given
        """
        numbers = np.arange(len(tokens), dtype=np.int64) if ids is None else _as_numbers(ids)
        return cls._checked(list(tokens), numbers, None, whole_first=True)

    @classmethod
    def from_merges(
        cls,
        ids: Mapping[bytes, int],
        merges: Sequence[tuple[bytes, bytes]],
        *,
        whole_first: bool = False,
        unit: Unit = "byte",
        unk: bytes | None = None,
        fuse_unk: bool = False,
        byte_fallback: bool = False,
        prefix: bytes = b"",
        suffix: bytes = b"",
        dropout: float = 0.0,
    ) -> "Vocabulary":
        """A vocabulary with a list of merges in order of rank, as ``tokenizers`` has it.

        Where a pair stands twice its last rank counts. A merge makes the left token and the right one less the bytes
        of the prefix. The options are those of :class:`Options`. Raises VocabularyError for a merge of, or into, what
        is not a token, and for an unknown token that is none.
        """
        options = Options(unit, unk, fuse_unk, byte_fallback, prefix, suffix, dropout)
        tokens = sorted(ids, key=ids.__getitem__)
        symbol = {token: number for number, token in enumerate(tokens)}
        kept = len(prefix)
        rows = np.empty((len(merges), 3), np.uint32)
        try:
            rows[:, 0] = [symbol[left] for left, _ in merges]
            rows[:, 1] = [symbol[right] for _, right in merges]
            rows[:, 2] = [symbol[left + right[kept:]] for left, right in merges]
        except KeyError:
            for rank, (left, right) in enumerate(merges):
                for token in (left, right, left + right[kept:]):
                    if token not in symbol:
                        raise VocabularyError(
                            f"merge {rank} ({left!r} with {right!r}) needs the token {token!r}, which is not in the "
                            "vocabulary"
                        ) from None
        numbers = _as_numbers([ids[token] for token in tokens])
        return cls._checked(tokens, numbers, rows, whole_first, options)

    @classmethod
    def from_spelled(
        cls,
        vocab: Mapping[str, int],
        merges: bytes | Sequence[str | Sequence[str]],
        *,
        whole_first: bool = False,
        unit: Unit = "byte",
        unk: str | None = None,
        fuse_unk: bool = False,
        byte_fallback: bool = False,
        prefix: str = "",
        suffix: str = "",
        dropout: float = 0.0,
    ) -> "Vocabulary":
        """What :meth:`from_merges` makes, from the strings of a ``tokenizer.json``, many times as fast.

        ``merges`` is the JSON of the list as it stands in the file (:func:`numbatok.loading.spelled.split_json`) or, at
        twice the time, the list. Where the unit is a byte, tokens are written in the byte alphabet; one with any other
        character stands for its UTF-8.
        """
        from numbatok.loading import byte_level
        from numbatok.loading.spelled import Spelled

        to_bytes = byte_level.to_bytes if unit == "byte" else str.encode
        if unk is not None and unk not in vocab:
            raise VocabularyError(f"the unknown token {unk!r} is not in the vocabulary")
        options = Options(
            unit,
            None if unk is None else to_bytes(unk),
            fuse_unk,
            byte_fallback,
            to_bytes(prefix),
            to_bytes(suffix),
            dropout,
        )
        if set(map(type, vocab.values())) - {int}:
            token, number = next(item for item in vocab.items() if type(item[1]) is not int)
            raise VocabularyError(f"vocab gives {token!r} the id {number!r}; wanted an integer")
        tokens, numbers = list(vocab), _as_numbers(list(vocab.values()))
        _check_size(len(tokens))
        if np.any(numbers[1:] < numbers[:-1]):
            order = np.argsort(numbers, kind="stable")
            numbers = numbers[order]
            tokens = [tokens[i] for i in order.tolist()]
        _check_ids(numbers, tokens)
        if "" in vocab:
            raise VocabularyError(EMPTY_TOKEN)
        spelled = Spelled(tokens)
        data, starts = spelled.data(unit)
        rows = spelled.rows(merges, prefix)
        _check_size(len(tokens), len(rows))
        return cls(data, starts, numbers.astype(np.uint32), rows, whole_first, options)

    @classmethod
    def _checked(
        cls,
        tokens: list[bytes],
        ids: npt.NDArray[np.int64],
        merges: npt.NDArray[np.uint32] | None,
        whole_first: bool,
        options: Options = Options(),
    ) -> "Vocabulary":
        _check_size(len(tokens), 0 if merges is None else len(merges))
        if len(ids) != len(tokens):
            raise VocabularyError(f"{len(tokens)} tokens given with {len(ids)} ids; each token needs one")
        _check_ids(ids, tokens)
        distinct = set(tokens)
        if len(distinct) != len(tokens):
            seen: set[bytes] = set()
            for token in tokens:
                if token in seen:
                    raise VocabularyError(f"token {token!r} is in the vocabulary twice")
                seen.add(token)
        if b"" in distinct:
            raise VocabularyError(EMPTY_TOKEN)
        for byte in range(256):
            if merges is None and bytes([byte]) not in distinct:
                raise VocabularyError(f"byte 0x{byte:02x} is not a token; a rank file holds each of the 256 bytes")
        if options.unk is not None and options.unk not in distinct:
            raise VocabularyError(f"the unknown token {options.unk!r} is not in the vocabulary")
        lengths = np.fromiter(map(len, tokens), np.int64, len(tokens))
        starts = np.zeros(len(tokens) + 1, np.int64)
        np.cumsum(lengths, out=starts[1:])
        data = np.frombuffer(b"".join(tokens), np.uint8)
        return cls(data, starts, ids.astype(np.uint32), merges, whole_first, options)

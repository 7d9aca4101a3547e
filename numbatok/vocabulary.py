"""Vocabularies: the tokens' bytes and ids, and the rule that ranks merges, as flat arrays.

Every token has a *symbol*, its number in order of building, which is what the merge tables hold; ids may have gaps and
any order, symbols do not. Invariants, checked here once so that kernels need not: no two tokens have the same bytes or
the same id, each of the 256 bytes is a token, no token is empty, and every merge makes a token.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from numbatok.errors import VocabularyError

MAX_SYMBOLS = 1 << 21  # kernels.dtypes.SYMBOL_BITS
MAX_RANKS = (1 << 22) - 1  # kernels.dtypes.RANK_BITS; the last value stands for an empty slot


def _as_numbers(ids: Sequence[int] | npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
    """The given ids as int64, or the error for one that is out of range by far."""
    try:
        return np.asarray(ids, np.int64)
    except OverflowError:
        worst = next(number for number in ids if not 0 <= number < 1 << 32)
        raise VocabularyError(f"id {worst} is not between 0 and 2**32 - 1") from None


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
    """

    data: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int64]
    ids: npt.NDArray[np.uint32]
    merges: npt.NDArray[np.uint32] | None
    whole_first: bool

    def __len__(self) -> int:
        return len(self.ids)

    def __eq__(self, other: object) -> bool:
        """Whether two vocabularies give the same ids to every text: same tokens, ids and ranks."""
        if not isinstance(other, Vocabulary):
            return NotImplemented
        return self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    def _content(self) -> tuple[bytes, bytes, bytes, bytes | None, bool]:
        merges = None if self.merges is None else self.merges.tobytes()
        return self.data.tobytes(), self.starts.tobytes(), self.ids.tobytes(), merges, self.whole_first

    def __reduce__(self) -> tuple[type["Vocabulary"], tuple[object, ...]]:
        return Vocabulary, (self.data, self.starts, self.ids, self.merges, self.whole_first)

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
        numbers = np.arange(len(tokens)) if ids is None else _as_numbers(ids)
        return cls._checked(list(tokens), numbers, None, whole_first=True)

    @classmethod
    def from_merges(
        cls, ids: Mapping[bytes, int], merges: Sequence[tuple[bytes, bytes]], *, whole_first: bool = False
    ) -> "Vocabulary":
        """A vocabulary with a list of merges in order of rank, as ``tokenizers`` has it.

        Where a pair stands twice its last rank counts. Raises VocabularyError for a merge of, or into, what is not a
        token.
        """
        tokens = sorted(ids, key=ids.__getitem__)
        symbol = {token: number for number, token in enumerate(tokens)}
        rows = np.empty((len(merges), 3), np.uint32)
        try:
            rows[:, 0] = [symbol[left] for left, _ in merges]
            rows[:, 1] = [symbol[right] for _, right in merges]
            rows[:, 2] = [symbol[left + right] for left, right in merges]
        except KeyError:
            for rank, (left, right) in enumerate(merges):
                for token in (left, right, left + right):
                    if token not in symbol:
                        raise VocabularyError(
                            f"merge {rank} ({left!r} with {right!r}) needs the token {token!r}, which is not in the "
                            "vocabulary"
                        ) from None
        numbers = _as_numbers([ids[token] for token in tokens])
        return cls._checked(tokens, numbers, rows, whole_first)

    @classmethod
    def _checked(
        cls,
        tokens: list[bytes],
        ids: npt.NDArray[np.int64],
        merges: npt.NDArray[np.uint32] | None,
        whole_first: bool,
    ) -> "Vocabulary":
        if len(tokens) > MAX_SYMBOLS:
            raise VocabularyError(f"{len(tokens)} tokens given; at most {MAX_SYMBOLS} are supported")
        if merges is not None and len(merges) > MAX_RANKS:
            raise VocabularyError(f"{len(merges)} merges given; at most {MAX_RANKS} are supported")
        if len(ids) != len(tokens):
            raise VocabularyError(f"{len(tokens)} tokens given with {len(ids)} ids; each token needs one")
        if len(ids) and (ids.min() < 0 or ids.max() >= 1 << 32):
            worst = int(ids[np.argmax((ids < 0) | (ids >= 1 << 32))])
            raise VocabularyError(f"id {worst} is not between 0 and 2**32 - 1")
        order, counts = np.unique(ids, return_counts=True)
        if counts.size and counts.max() > 1:
            twice = int(order[np.argmax(counts > 1)])
            owners = [tokens[i] for i in np.flatnonzero(ids == twice)[:2]]
            raise VocabularyError(f"id {twice} is given to two tokens, {owners[0]!r} and {owners[1]!r}")
        distinct = set(tokens)
        if len(distinct) != len(tokens):
            seen: set[bytes] = set()
            for token in tokens:
                if token in seen:
                    raise VocabularyError(f"token {token!r} is in the vocabulary twice")
                seen.add(token)
        if b"" in distinct:
            raise VocabularyError("the empty token is in the vocabulary; every token needs at least one byte")
        for byte in range(256):
            if bytes([byte]) not in distinct:
                raise VocabularyError(
                    f"byte 0x{byte:02x} is not a token; a byte-level vocabulary holds each of the 256 bytes"
                )
        lengths = np.fromiter(map(len, tokens), np.int64, len(tokens))
        starts = np.zeros(len(tokens) + 1, np.int64)
        np.cumsum(lengths, out=starts[1:])
        data = np.frombuffer(b"".join(tokens), np.uint8)
        return cls(data, starts, ids.astype(np.uint32), merges, whole_first)

"""How a text becomes its ids: piece by piece, merge by merge, in Python, for people to read.

The kernels split the text and find the added tokens; merging is done here once more, so that each step can be told.
"""

import functools
import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from numbatok.displays.escapes import token_text
from numbatok.kernels import dtypes
from numbatok.kernels.pieces import list_starts
from numbatok.loading import byte_level
from numbatok.memory import address_of
from numbatok.placing import prepare
from numbatok.vocabulary import Vocabulary

if TYPE_CHECKING:
    from numbatok.engine import Engine
    from numbatok.parts import Parts
    from numbatok.scratch import Scratch
    from numbatok.text import Text

#: Merges of a piece that a repr shows.
MOST_SHOWN = 40

#: (rank, symbol made) of two neighbouring symbols, or None.
_RankOf = Callable[[int, int], "tuple[int, int] | None"]


class Merge(NamedTuple):
    """One merge: two neighbours, what they become, at which rank, and the place of the left one at that moment.

    >>> numbatok.get_encoding("gpt2").explain("the")[0].merges[0]
    Merge(left=b'h', right=b'e', made=b'he', rank=258, place=1)
    """

    left: bytes
    right: bytes
    made: bytes
    rank: int
    place: int


@dataclass(frozen=True)
class Piece:
    """A pretoken, or an added token, and how it became ids.

    Attributes
    ----------
    content : its bytes, normalized
    kind : ``"merged"``; ``"whole"``, a token that the vocabulary asks to take whole, and that merging would not make;
        ``"added"``; ``"dropped"``, which the split rule removes
    units : the tokens that merging begins with
    merges : in the order in which they were applied
    tokens, ids : the outcome

    >>> piece = numbatok.get_encoding("gpt2").explain("the end")[1]
    >>> piece.content, piece.kind, piece.tokens, piece.ids
    (b' end', 'merged', (b' end',), (886,))
    """

    content: bytes
    kind: Literal["merged", "whole", "added", "dropped"]
    units: tuple[bytes, ...]
    merges: tuple[Merge, ...]
    tokens: tuple[bytes, ...]
    ids: tuple[int, ...]

    def __repr__(self) -> str:
        name = f'"{token_text(self.content)}"'
        if self.kind == "dropped":
            return f"{name} dropped"
        ids = " ".join(map(str, self.ids))
        if self.kind != "merged":
            return f"{name} {self.kind} -> {ids}"
        state = list(self.units)
        lines = [f"{name} -> {ids}", f"    {_state(state)}"]
        for merge in self.merges[:MOST_SHOWN]:
            state[merge.place : merge.place + 2] = [merge.made]
            lines.append(f"    {_state(state)}    rank {merge.rank}: {_state((merge.left, merge.right))}")
        if len(self.merges) > MOST_SHOWN:
            lines += [f"    ... {len(self.merges) - MOST_SHOWN} more merges", f"    {_state(self.tokens)}"]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from numbatok.displays.summaries import explanation_html

        return explanation_html([self])


def _state(tokens: Sequence[bytes]) -> str:
    return " ".join(f"[{token_text(token)}]" for token in tokens)


class Explanation(Sequence[Piece]):
    """The pieces of a text. Its repr shows them, one below the other, with each merge on a line.

    Attributes
    ----------
    ids : uint32, those of all pieces one after the other: the text's, without a template's special tokens

    >>> numbatok.get_encoding("gpt2").explain("the end").ids
    array([1169,  886], dtype=uint32)
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = tuple(pieces)
        self.ids = np.array([number for piece in pieces for number in piece.ids], np.uint32)

    def __len__(self) -> int:
        return len(self._pieces)

    @overload
    def __getitem__(self, index: int) -> Piece: ...
    @overload
    def __getitem__(self, index: slice) -> "Explanation": ...
    def __getitem__(self, index: int | slice) -> "Piece | Explanation":
        return Explanation(self._pieces[index]) if isinstance(index, slice) else self._pieces[index]

    def __repr__(self) -> str:
        return "\n".join(map(repr, self._pieces)) or "no pieces"

    def _repr_html_(self) -> str:
        from numbatok.displays.summaries import explanation_html

        return explanation_html(self._pieces)


def explain(engine: "Engine", parts: "Parts", text: "Text", actions: npt.NDArray[np.uint8], errors: str) -> Explanation:
    """What :meth:`numbatok.Tokenizer.explain` does."""
    if parts.vocabulary.options.dropout:
        raise ValueError(
            "this tokenizer merges at random, so one explanation is not the next; with_dropout(0) turns that off"
        )
    data = prepare(text, errors)
    merging = _merging(parts.vocabulary)
    pieces = []
    with engine.scratch() as scratch:
        scratch.set_actions(actions)
        for content, token, dropped in _pieces(engine, parts, scratch, data):
            if token is not None:
                number = parts.added_tokens[token].id
                pieces.append(Piece(content, "added", (), (), (content,), (number,)))
            elif dropped:
                pieces.append(Piece(content, "dropped", (), (), (), ()))
            else:
                pieces.append(merging.explain(content))
        scratch.shrink()
    return Explanation(pieces)


def _pieces(
    engine: "Engine", parts: "Parts", scratch: "Scratch", data: npt.NDArray[np.uint8]
) -> Iterator[tuple[bytes, int | None, bool]]:
    """(bytes, added token or None, whether it is dropped) of each piece of a text."""
    for start, stop, token in engine.segments_by(scratch, dtypes.VIEW_RAW_TRIE, address_of(data), len(data)):
        segment = data[start:stop]
        if token is not None:
            engine.token_row(scratch, token, start, 0, False)
            yield segment.tobytes(), token, False
            continue
        if parts.normalizer is not None:
            segment = np.frombuffer(parts.normalizer.normalize(segment.tobytes().decode()).encode(), np.uint8)
        for begin, end, inner in engine.segments_by(
            scratch, dtypes.VIEW_NORMALIZED_TRIE, address_of(segment), len(segment)
        ):
            part = segment[begin:end]
            if inner is not None:
                engine.token_row(scratch, inner, start, 0, False)
                yield part.tobytes(), inner, False
                continue
            if parts.prefix_space and part[0] != ord(" "):
                part = np.concatenate([np.frombuffer(b" ", np.uint8), part])
            starts, dropped = _cut(engine, scratch, part)
            for first, last, gone in zip(starts, [*starts[1:], len(part)], dropped, strict=True):
                yield part[first:last].tobytes(), None, bool(gone)


def _cut(
    engine: "Engine", scratch: "Scratch", part: npt.NDArray[np.uint8]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """(starts, dropped) of the pieces of a text without added tokens."""
    if engine.regex_rule is not None:
        return engine.regex_rule.cut(part.tobytes().decode())
    output = np.empty(len(part), np.int64)
    arguments = address_of(part), len(part), 0, -(-len(part) // 64), address_of(output), len(output)
    while (status := list_starts(scratch.address, *arguments)) < 0:
        scratch.mend(status)
    dropped = output[:status] < 0
    return np.where(dropped, -1 - output[:status], output[:status]), dropped


@functools.lru_cache(maxsize=4)
def _merging(vocabulary: Vocabulary) -> "_Merging":
    return _Merging(vocabulary)


class _Merging:
    """Merging by one vocabulary, in Python."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._options = vocabulary.options
        self._symbol_of = {token: symbol for symbol, token in enumerate(vocabulary.tokens)}
        self._bytes = vocabulary.byte_tokens() if self._options.byte_fallback else {}
        self._rank_of = self._by_ranks if vocabulary.merges is None else self._by_merges(vocabulary.merges)

    def _by_ranks(self, left: int, right: int) -> tuple[int, int] | None:
        tokens = self._vocabulary.tokens
        made = self._symbol_of.get(tokens[left] + tokens[right])
        return None if made is None else (made, made)

    @staticmethod
    def _by_merges(merges: npt.NDArray[np.uint32]) -> _RankOf:
        rank = {(left, right): (rank, made) for rank, (left, right, made) in enumerate(merges.tolist())}
        return lambda left, right: rank.get((left, right))

    def explain(self, content: bytes) -> Piece:
        """One pretoken, to its ids."""
        tokens, ids = self._vocabulary.tokens, self._vocabulary.ids
        units = self._units(content)
        merges, symbols = self._merge(units)
        whole = self._symbol_of.get(content) if self._vocabulary.whole_first else None
        if whole is not None and symbols != [whole]:
            return Piece(content, "whole", (), (), (content,), (int(ids[whole]),))
        return Piece(
            content,
            "merged",
            tuple(tokens[symbol] for symbol in units),
            merges,
            tuple(tokens[symbol] for symbol in symbols),
            tuple(int(ids[symbol]) for symbol in symbols),
        )

    def _units(self, content: bytes) -> list[int]:
        """The symbols of the units of a pretoken.

        Of a unit without one see :func:`numbatok.kernels.units.split_units`.
        """
        options = self._options
        by_byte = options.unit == "byte"
        units = [content[i : i + 1] for i in range(len(content))] if by_byte else [c.encode() for c in content.decode()]
        unknown = [] if options.unk is None else [self._symbol_of[options.unk]]
        symbols: list[int] = []
        waiting = 0
        for place, unit in enumerate(units):
            token = (options.prefix if place else b"") + unit + (options.suffix if place == len(units) - 1 else b"")
            symbol = self._symbol_of.get(token)
            spelled = byte_level.spell(token).encode() if by_byte else token
            if symbol is not None:
                symbols += [*(unknown * waiting), symbol]
                waiting = 0
            elif options.byte_fallback and all(byte in self._bytes for byte in spelled):
                symbols += [self._bytes[byte] for byte in spelled]
            elif unknown:
                if waiting and not options.fuse_unk:
                    symbols += unknown
                waiting = 1
        return symbols + unknown * waiting

    def _merge(self, units: list[int]) -> tuple[tuple[Merge, ...], list[int]]:
        """(merges, symbols left): a heap of (rank, place) and a list of neighbours, so that long pieces end too."""
        symbols: list[int | None] = list(units)
        after, before = list(range(1, len(units) + 1)), list(range(-1, len(units) - 1))
        heap: list[tuple[int, int, int, int, int]] = []
        applied: list[tuple[int, int, int, int, int]] = []  # left, right, made, rank, where the left one began

        def enter(left: int) -> None:
            right = after[left]
            if right < len(symbols):
                pair: tuple[Any, Any] = symbols[left], symbols[right]
                found = self._rank_of(*pair)
                if found is not None:
                    heapq.heappush(heap, (found[0], left, *pair, found[1]))

        for place in range(len(units) - 1):
            enter(place)
        while heap:
            rank, left, first, second, made = heapq.heappop(heap)
            right = after[left]
            if right >= len(symbols) or symbols[left] != first or symbols[right] != second:
                continue
            applied.append((first, second, made, rank, left))
            symbols[left], symbols[right] = made, None
            after[left] = after[right]
            if after[right] < len(symbols):
                before[after[right]] = left
            enter(left)
            if before[left] >= 0:
                enter(before[left])
        return self._placed(applied, len(units)), [symbol for symbol in symbols if symbol is not None]

    def _placed(self, applied: list[tuple[int, int, int, int, int]], units: int) -> tuple[Merge, ...]:
        """The merges with the place of each among the tokens of its moment: units before, less merges among those."""
        tokens = self._vocabulary.tokens
        gone = [0] * (units + 1)  # a Fenwick tree over the units: how many left of a place have been merged away
        done = []
        for left, right, made, rank, begin in applied:
            place, node = begin, begin
            while node > 0:
                place -= gone[node]
                node -= node & -node
            done.append(Merge(tokens[left], tokens[right], tokens[made], rank, place))
            node = begin + 1
            while node <= units:
                gone[node] += 1
                node += node & -node
        return tuple(done)

"""Texts cut to a number of ids that a model takes, in windows that overlap, and texts that come as words.

What :meth:`numbatok.Tokenizer.encode_windows` and :meth:`~numbatok.Tokenizer.encode_words` do, with the rules of
``tokenizers`` (its truncation, and its ``is_pretokenized``). A text's ids are made once; rows are spans of them, with
the template's special tokens between.
"""

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from numbatok.batch import TokenBatch
from numbatok.documents import Frame
from numbatok.ids import Ids, Offsets
from numbatok.memory import address_of
from numbatok.rows import Side, checked_choice, checked_number, joined
from numbatok.templates import Text

Strategy = Literal["longest_first", "only_first", "only_second"]

_Numbers = npt.NDArray[np.int64]


class Windows(NamedTuple):
    """Rows of ids that texts, or pairs, were cut into.

    Attributes
    ----------
    batch : a document for each window; those of one text stand together, the one that truncating alone leaves first
    owners : int64[windows], the index of the text, or pair, that each window is of
    words : int32[total], for each id the index of its word in its text, or -1 for the template's special tokens; None
        where texts were not given as words

    >>> numbatok.get_encoding("gpt2").encode_windows(["a b c"], max_length=2).batch.tolist()
    [[64, 275], [269]]
    """

    batch: TokenBatch
    owners: _Numbers
    words: npt.NDArray[np.int32] | None


class Cut(NamedTuple):
    """How texts are cut: what :meth:`numbatok.Tokenizer.encode_windows` says of its arguments."""

    max_length: int | None
    stride: int
    strategy: Strategy
    direction: Side
    overflow: bool


class TextIds(NamedTuple):
    """The ids of the first, or the second, texts, flat; ``words`` has the index of each id's word, or is None."""

    ids: Ids
    offsets: Offsets
    words: npt.NDArray[np.int32] | None = None


class _Spans(NamedTuple):
    """The windows of each text: how many, and of all, flat, where they begin and end among the text's ids."""

    counts: _Numbers
    begins: _Numbers
    ends: _Numbers


def checked_cut(max_length: int | None, stride: int, strategy: str, direction: str, overflow: bool, pairs: bool) -> Cut:
    """The arguments of a call, or the error that says what is wrong with one."""
    checked_choice("strategy", strategy, ("longest_first", "only_first", "only_second"))
    checked_choice("direction", direction, ("left", "right"))
    if strategy == "only_second" and not pairs:
        raise ValueError('strategy "only_second" cuts the second texts of pairs, and no pairs are given')
    length = None if max_length is None else checked_number("max_length", max_length, 0)
    return Cut(length, checked_number("stride", stride, 0), strategy, direction, bool(overflow))  # type: ignore[arg-type]


def cut_texts(frame: Frame, first: TextIds, second: TextIds | None, cut: Cut) -> Windows:
    """The rows of texts, or pairs, in a template."""
    sides = {"A": first} if second is None else {"A": first, "B": second}
    lengths = {which: np.diff(side.offsets) for which, side in sides.items()}
    spans = {which: _windows(lengths[which], keeps, cut) for which, keeps in kept_lengths(frame, lengths, cut).items()}
    owners, chosen = _combinations(frame, {which: span.counts for which, span in spans.items()}, len(lengths["A"]))

    shape = len(owners), len(frame.pieces)
    addresses, counts = np.empty(shape, np.int64), np.empty(shape, np.int64)
    types = np.broadcast_to(frame.types, shape).copy()
    begins = np.zeros(shape, np.int64)
    for number, piece in enumerate(frame.pieces):
        if not isinstance(piece, Text):
            address, size = frame.row(number)
            addresses[:, number], counts[:, number] = address, -size
            continue
        side, span = sides[piece.which], spans[piece.which]
        window = (np.cumsum(span.counts) - span.counts)[owners] + chosen[number]
        begins[:, number] = side.offsets[owners] + span.begins[window]
        addresses[:, number] = address_of(side.ids) + 4 * begins[:, number]
        counts[:, number] = span.ends[window] - span.begins[window]
        if not frame.is_even:
            types[chosen[number] > 0, number] = piece.which == "B"
    offsets = np.zeros(len(owners) + 1, np.int64)
    np.cumsum(counts.sum(axis=1), out=offsets[1:])
    types_of_ids = np.repeat(types.ravel(), counts.ravel()) if types.any() else None
    words = None
    if first.words is not None:
        words = _words(frame, sides, begins, counts)
    return Windows(TokenBatch(joined(addresses, counts), offsets, types_of_ids), owners, words)


def _words(frame: Frame, sides: dict[str, TextIds], begins: _Numbers, counts: _Numbers) -> npt.NDArray[np.int32]:
    """The index of each id's word, from where in the texts' ids each span begins."""
    none = np.full(max((len(block) for block in frame.blocks if block is not None), default=0), -1, np.int32)
    addresses = np.empty(begins.shape, np.int64)
    for number, piece in enumerate(frame.pieces):
        words = sides[piece.which].words if isinstance(piece, Text) else none
        assert words is not None
        addresses[:, number] = address_of(words) + 4 * begins[:, number]
    return joined(addresses, counts).view(np.int32)


def kept_lengths(frame: Frame, lengths: dict[str, _Numbers], cut: Cut) -> dict[str, _Numbers]:
    """How many ids of each first and second text one row holds."""
    if cut.max_length is None:
        return lengths
    added = sum(len(block) for block in frame.blocks if block is not None)
    room = cut.max_length - added
    if room < 0:
        raise ValueError(
            f"max_length is {cut.max_length}, and the template alone puts {added} special tokens around a text; pass "
            "a larger one, or add_special_tokens=False"
        )
    if cut.overflow and cut.stride >= room:
        less = f", less the template's {added} special tokens" if added else ""
        raise ValueError(f"stride must be smaller than max_length{less}, which leaves {room}, not {cut.stride}")
    kept = dict(lengths)
    total = np.sum(list(lengths.values()), axis=0)
    too_many = np.maximum(total - room, 0)
    if room == 0:
        return {which: np.zeros_like(length) for which, length in lengths.items()}
    if cut.strategy != "longest_first":
        which = "A" if cut.strategy == "only_first" else "B"
        kept[which] = lengths[which] - too_many
        wrong = (too_many > 0) & (kept[which] <= 0)
        if wrong.any():
            number = int(np.argmax(wrong))
            raise ValueError(
                f"the pair at index {number} has {total[number]} ids, {too_many[number]} more than {room}, and its "
                f"{'first' if which == 'A' else 'second'} text, which alone is cut, has {lengths[which][number]}"
            )
    elif "B" not in lengths:
        kept["A"] = np.minimum(lengths["A"], room)
    else:
        shorter, longer = np.minimum(lengths["A"], lengths["B"]), np.maximum(lengths["A"], lengths["B"])
        longer = np.where(shorter > room, shorter, np.maximum(shorter, room - shorter))
        both = shorter + longer > room
        shorter = np.where(both, room // 2, shorter)
        longer = np.where(both, room // 2 + room % 2, longer)
        first_longer = lengths["A"] > lengths["B"]
        for which, is_longer in (("A", first_longer), ("B", ~first_longer)):
            kept[which] = np.where(too_many > 0, np.where(is_longer, longer, shorter), lengths[which])
            kept[which] = np.minimum(kept[which], lengths[which])
    return kept


def _windows(lengths: _Numbers, keeps: _Numbers, cut: Cut) -> _Spans:
    """The windows of texts of these many ids where a row holds ``keeps`` of them; all but one where none overflow."""
    is_cut = lengths > keeps
    if not cut.overflow:
        counts = np.ones_like(lengths)
    else:
        wrong = is_cut & (keeps <= cut.stride)
        if wrong.any():
            number = int(np.argmax(wrong))
            raise ValueError(
                f"the stride is {cut.stride}, and of the text at index {number} a row holds {keeps[number]} ids: "
                "windows would not get on; pass a smaller stride or a larger max_length"
            )
        steps = np.where(is_cut, keeps - cut.stride, 1)
        counts = 1 + np.where(is_cut, -(-(lengths - keeps) // steps), 0)
    owners = np.repeat(np.arange(len(lengths), dtype=np.int64), counts)
    moved = (np.arange(len(owners)) - (np.cumsum(counts) - counts)[owners]) * (keeps[owners] - cut.stride)
    if cut.direction == "right":
        begins = np.maximum(moved, 0)
        ends = np.minimum(begins + keeps[owners], lengths[owners])
    else:
        ends = lengths[owners] - np.maximum(moved, 0)
        begins = np.maximum(ends - keeps[owners], 0)
    return _Spans(counts, begins, ends)


def _combinations(frame: Frame, counts: dict[str, _Numbers], texts: int) -> tuple[_Numbers, dict[int, _Numbers]]:
    """(owners, windows): the rows of all texts, and for each text piece of the template which window each row has.

    Each window of one piece goes with each of the others, in the order in which ``tokenizers`` merges them: the first
    of all; then those with a further window of the earlier piece, with all windows of the later one; then the first of
    the earlier with the further ones of the later. ``counts`` has the number of windows of first and second texts.
    """
    numbers = [number for number, piece in enumerate(frame.pieces) if isinstance(piece, Text)]
    before = [np.ones(texts, np.int64)]  # combinations of the pieces before
    for number in numbers:
        piece = frame.pieces[number]
        assert isinstance(piece, Text)
        before.append(before[-1] * counts[piece.which])
    owners = np.repeat(np.arange(texts, dtype=np.int64), before[-1])
    place = np.arange(len(owners)) - (np.cumsum(before[-1]) - before[-1])[owners]
    chosen = {}
    for number, earlier, both in zip(reversed(numbers), before[-2::-1], before[:0:-1], strict=True):
        later = (both // earlier)[owners]
        further = (earlier[owners] - 1) * later
        in_further = (place > 0) & (place <= further)
        chosen[number] = np.where(in_further, (place - 1) % later, np.where(place > further, place - further, 0))
        place = np.where(in_further, 1 + (place - 1) // later, 0)
    return owners, chosen


def words_of(documents: object, name: str) -> tuple[list[str], _Numbers]:
    """(words, offsets): the words of all documents, and where each document's begin; TypeError for what is none."""
    if isinstance(documents, str | bytes):
        raise TypeError(f"{name} must be an iterable of documents, each a sequence of words, not {documents!r:.60}")
    flat: list[str] = []
    edges = [0]
    try:
        rows = list(documents)  # type: ignore[call-overload]
    except TypeError:
        raise TypeError(
            f"{name} must be an iterable of documents, each a sequence of words, not {type(documents).__name__}"
        ) from None
    for index, row in enumerate(rows):
        if isinstance(row, str | bytes) or not hasattr(row, "__iter__"):
            hint = f"; [{row!r:.60}] is one" if isinstance(row, str) else ""
            raise TypeError(f"{name} must hold sequences of words, not {row!r:.60} at index {index}{hint}")
        flat.extend(row)  # += would let an array of NumPy add itself to each word
        edges.append(len(flat))
        for place in range(edges[-2], edges[-1]):
            if not isinstance(flat[place], str):
                raise TypeError(
                    f"a word must be a str, not {type(flat[place]).__name__} at index {place - edges[-2]} of the "
                    f"document at index {index}"
                )
    return flat, np.array(edges, np.int64)


def texts_of_words(ids: Ids, of_words: Offsets, documents: Offsets) -> TextIds:
    """The ids of documents of words, from where each word's ids begin and each document's words."""
    lengths = np.diff(of_words)
    index = np.arange(len(lengths)) - np.repeat(documents[:-1], np.diff(documents))
    return TextIds(ids, of_words[documents], np.repeat(index.astype(np.int32), lengths))


def word_at(place: int, documents: Offsets) -> tuple[int, int]:
    """(document, word) of a word's place among all."""
    document = int(np.searchsorted(documents, place, side="right")) - 1
    return document, place - int(documents[document])

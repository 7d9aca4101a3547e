"""Blocks: documents on their way from a reader to the encoder, with the places that a run can be resumed at."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from numbatok.columns import Column
from numbatok.pipelines.inputs import Input

#: Columns of a block's places.
INPUT, POSITION, NUMBER = range(3)
PLACE_FIELDS = 3

_DOCUMENT_COST = 64  # bytes: what a document takes at least, of an empty one its places


class Fault(NamedTuple):
    """Something that could not be encoded: the file, where in it (``"line 7"``, or nothing for all of it), and why."""

    file: str
    where: str
    reason: str

    def __str__(self) -> str:
        return f"{self.file}: {self.where}: {self.reason}" if self.where else f"{self.file}: {self.reason}"


class InputError(ValueError):
    """A file, or a line, row or document of one, that cannot be encoded; the message says which, and why."""


@dataclass
class Block:
    """Documents in order, of one file or of several.

    Attributes
    ----------
    texts : the documents
    places : int64[documents, PLACE_FIELDS], for each the number of its input; the position behind it, in bytes of the
        text of a file, decompressed, or in rows; and its number in the file, counted as people do
    consumed : bytes of all inputs, as they are on the disk, that have been read once this block has
    faults : what could not be read, each with the number of the document before which it stood
    carried : a pyarrow.Table of columns that go with the documents, or None
    is_json : whether the texts are lines of JSON, of which the encoder takes the documents
    part : None; or of a document that is too long for a block the bytes that come next: ``texts`` is empty then, and
        ``places`` is the document's. A fault means that the rest of it cannot be read.
    more : whether more parts of it come
    """

    texts: Column
    places: npt.NDArray[np.int64]
    consumed: int = 0
    faults: list[tuple[int, Fault]] = field(default_factory=list)
    carried: Any = None
    is_json: bool = False
    part: bytes | None = None
    more: bool = False

    def __len__(self) -> int:
        return len(self.texts)

    def fault(self, inputs: Sequence[Input], number: int, reason: str) -> Fault:
        """A fault of one of the documents."""
        given = inputs[int(self.places[number, INPUT])]
        return Fault(given.shown, given.where(int(self.places[number, NUMBER])), reason)

    def slice(self, begin: int, end: int) -> "Block":
        """Some of the documents; faults stay with the document that they stood before, or behind the last."""
        is_last = end == len(self)
        faults = [(at - begin, fault) for at, fault in self.faults if begin <= at and (at < end or is_last)]
        carried = None if self.carried is None else self.carried.slice(begin, end - begin)
        texts = self.texts.take(np.arange(begin, end))
        return replace(self, texts=texts, places=self.places[begin:end], faults=faults, carried=carried)

    def without(self, bad: dict[int, Fault], empty: Sequence[int] = ()) -> "Block":
        """The block without some documents, which are faults now, and others that are none."""
        if not bad and not empty:
            return self
        is_left_out = np.zeros(len(self) + 1, np.int64)
        is_left_out[[*bad, *empty]] = 1
        before = np.cumsum(is_left_out) - is_left_out  # how many of them stand before each document
        faults = sorted([*self.faults, *bad.items()], key=lambda item: item[0])
        kept = np.flatnonzero(is_left_out[:-1] == 0)
        return replace(
            self,
            texts=self.texts.take(kept),
            places=self.places[kept],
            faults=[(at - int(before[at]), fault) for at, fault in faults],
            carried=None if self.carried is None else self.carried.take(kept),
        )


def nothing() -> Block:
    """A block without documents."""
    none = np.empty(0, np.int64)
    return Block(Column(none, none, None), np.empty((0, PLACE_FIELDS), np.int64))


def _joined(blocks: list[Block]) -> Block:
    """The documents of several blocks, none of them a part of one, as one block."""
    if len(blocks) == 1:
        return blocks[0]
    faults, done = [], 0
    for block in blocks:
        faults += [(done + at, fault) for at, fault in block.faults]
        done += len(block)
    carried = None
    tables = [block.carried for block in blocks if block.carried is not None]  # one of faults alone has none
    if tables:
        from numbatok.rows import library

        carried = library("pyarrow", "arrow", "carrying columns").concat_tables(tables)
    return Block(
        Column.joined([block.texts for block in blocks]),
        np.concatenate([block.places for block in blocks]),
        blocks[-1].consumed,
        faults,
        carried,
        blocks[-1].is_json,
    )


def resized(blocks: Iterable[Block], size: int) -> Iterator[Block]:
    """The same documents in blocks of at most ``size`` bytes, and at least half of that: of many small files, or of
    rows that are large. Only a document that is longer is a larger block.
    """
    waiting: list[Block] = []
    held = 0
    try:
        for block in blocks:
            # Of empty documents there may not be any number in a block either.
            costs = np.maximum(block.texts.lengths, _DOCUMENT_COST)
            total = int(costs.sum())
            if waiting and (held + total > size or block.part is not None or block.is_json != waiting[-1].is_json):
                yield _joined(waiting)
                waiting, held = [], 0
            if block.part is not None:
                yield block
                continue
            if total > size:
                *whole, block = _cut_evenly(block, costs, size)
                yield from whole
                total = int(np.maximum(block.texts.lengths, _DOCUMENT_COST).sum())
            waiting.append(block)
            held += total
    except InputError:
        if waiting:  # a fault in what is before it is the first one
            yield _joined(waiting)
        raise
    if waiting:
        yield _joined(waiting)


def _cut_evenly(block: Block, costs: npt.NDArray[np.int64], size: int) -> list[Block]:
    """A block in parts that cost about the same, each of them at most ``size`` unless it is one document."""
    ends = np.append(0, np.cumsum(costs))
    parts = []
    done = 0
    while done < len(block):
        rest = int(ends[-1] - ends[done])
        aim = ends[done] + rest // -(-rest // size)
        stop = max(int(np.searchsorted(ends, aim, side="right")) - 1, done + 1)
        parts.append(block.slice(done, stop))
        done = stop
    return parts

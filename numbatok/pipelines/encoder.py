"""The encoder: blocks of documents to ids, and what cannot be encoded to faults."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from numbatok.batch import TokenBatch
from numbatok.pipelines.blocks import Block, Fault, InputError
from numbatok.pipelines.ends import encode_ended
from numbatok.pipelines.inputs import Input
from numbatok.pipelines.json_lines import parsed
from numbatok.streams import Made
from numbatok.text import raise_invalid
from numbatok.tokenizer import Tokenizer

_PART = 1 << 20  # bytes of a document in parts that are encoded at once


@dataclass
class Encoded:
    """A block, and the ids of its documents; or the ids that a part of one gave, and its bytes so far."""

    block: Block
    batch: TokenBatch
    part_bytes: int = 0


@dataclass
class Prepared:
    """A block to be encoded by any thread; of a part of a document what the stream has made of it."""

    block: Block
    made: Sequence[Made] = ()
    part_bytes: int = 0


class Encoder:
    """Blocks to ids, in two steps: the first for one block after the other, the second by any number of threads."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        inputs: Sequence[Input],
        options: dict[str, Any],
        id_type: np.dtype[Any],
        end: int | None,
        num_threads: int | None,
        block_bytes: int,
        expected: int,
        stop_at_fault: bool,
        field: str,
        columns: Sequence[str],
    ) -> None:
        self._tokenizer, self._inputs, self._options, self._end = tokenizer, inputs, options, end
        self._field, self._columns = field, columns
        self._id_type, self._threads, self._block_bytes = id_type, num_threads, block_bytes
        self._expected = expected
        self._stop_at_fault = stop_at_fault
        self._stream: Any = None  # of the document that comes in parts
        self._broken = ""  # why it cannot be encoded
        self._part_bytes = 0

    def prepare(self, block: Block) -> Prepared:
        """A block, gone through where it is a part of a document."""
        return Prepared(block) if block.part is None else self._prepare_part(block, block.part)

    def encode(self, prepared: Prepared) -> Encoded:
        """The ids of a block. Documents that cannot be encoded become faults, or InputError."""
        block = prepared.block
        if block.part is not None:
            ids = [np.empty(0, np.uint32), *(made() if callable(made) else made for made in prepared.made)]
            return Encoded(block, _one(np.concatenate(ids)), prepared.part_bytes)
        if block.is_json:
            block = parsed(block, self._inputs, self._field, self._columns, self._options["errors"])
            if block.faults and self._stop_at_fault:
                raise InputError(str(block.faults[0][1]))
        bad: dict[int, Fault] = {}
        if self._options["errors"] == "strict":
            for number in block.texts.invalid():
                if block.texts.valid is None or block.texts.valid[number]:
                    bad[number] = self._fault(block, number, _not_utf8(block.texts[number]))
        block = block.without(bad)
        try:
            batch = self._batch(block)
        except ValueError:
            block = block.without(self._refused(block))
            batch = self._batch(block)
        return Encoded(block, batch)

    def _batch(self, block: Block) -> TokenBatch:
        # Threads have a block each: they wait for nobody.
        is_large = int(block.texts.lengths.sum()) > self._block_bytes  # a document that could not be cut
        threads = self._threads if is_large else 1
        options = {**self._options, "dtype": self._id_type, "num_threads": threads, "expected": self._expected}
        return encode_ended(self._tokenizer, block.texts, self._end, **options)

    def _refused(self, block: Block) -> dict[int, Fault]:
        """The documents of a block that the tokenizer refuses, by one at a time."""
        bad = {}
        for number in range(len(block)):
            try:
                self._tokenizer.count_batch(block.texts.take(np.array([number])), **self._options)
            except ValueError as error:
                bad[number] = self._fault(block, number, _first_sentence(error))
        if not bad:
            raise AssertionError("a block was refused, but none of its documents")
        return bad

    def _fault(self, block: Block, number: int, reason: str) -> Fault:
        fault = block.fault(self._inputs, number, reason)
        if self._stop_at_fault:
            raise InputError(str(fault))
        return fault

    def _prepare_part(self, block: Block, part: bytes) -> Prepared:
        """What a part of a document decides; a fault with the last part means that there is no document."""
        if self._stream is None:
            self._stream, self._broken, self._part_bytes = self._tokenizer.stream_encoder(**self._options), "", 0
        made: list[Made] = []
        try:
            if not self._broken and not block.faults:
                for begin in range(0, max(len(part), 1), _PART):
                    is_end = not block.more and begin + _PART >= len(part)
                    made += self._stream.feed_later(part[begin : begin + _PART], is_end)
                self._part_bytes += len(part)
        except ValueError as error:
            self._broken = "not UTF-8" if isinstance(error, UnicodeError) else _first_sentence(error)
        faults = list(block.faults)
        if self._broken and not faults and (self._stop_at_fault or not block.more):
            faults.append((0, self._fault(block, 0, self._broken)))
        if not block.more:
            self._stream = None
            if self._end is not None:
                made.append(np.array([self._end], np.uint32))
        return Prepared(replace(block, part=b"", faults=faults), made, self._part_bytes)


def _one(ids: npt.NDArray[np.uint32]) -> TokenBatch:
    return TokenBatch(ids, np.array([0, len(ids)]))


def _not_utf8(data: bytes) -> str:
    try:
        raise_invalid(np.frombuffer(data, np.uint8))
    except UnicodeDecodeError as error:
        return f"not UTF-8 at byte {error.start} of the text"
    raise AssertionError("text was not UTF-8 and now is")


def _first_sentence(error: Exception) -> str:
    return str(error).partition(" of the text at index")[0].partition(". ")[0]

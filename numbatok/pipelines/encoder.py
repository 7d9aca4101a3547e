"""The encoder: blocks of documents to ids, and what cannot be encoded to faults."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from numbatok.batch import TokenBatch
from numbatok.calls import AnyIds
from numbatok.pipelines.blocks import INPUT, NUMBER, Block, Fault, InputError
from numbatok.pipelines.ends import ended
from numbatok.pipelines.inputs import Input
from numbatok.text import raise_invalid
from numbatok.tokenizer import Tokenizer

_PART = 1 << 20  # bytes of a document in parts that are encoded at once


@dataclass
class Encoded:
    """A block, and the ids of its documents; or the ids that a part of one gave, and its bytes so far."""

    block: Block
    batch: TokenBatch
    part_bytes: int = 0


class Encoder:
    """Blocks to ids, by any number of threads; parts of a document by one, one after the other."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        inputs: Sequence[Input],
        options: dict[str, Any],
        id_type: np.dtype[Any],
        end: int | None,
        num_threads: int | None,
        block_bytes: int,
        stop_at_fault: bool,
    ) -> None:
        self._tokenizer, self._inputs, self._options, self._end = tokenizer, inputs, options, end
        self._id_type, self._threads, self._block_bytes = id_type, num_threads, block_bytes
        self._stop_at_fault = stop_at_fault
        self._stream: Any = None  # of the document that comes in parts
        self._broken = ""  # why it cannot be encoded
        self._part_bytes = 0

    def encode(self, block: Block) -> Encoded:
        """The ids of a block. Documents that cannot be encoded become faults, or InputError."""
        if block.part is not None:
            return self._encode_part(block, block.part)
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
        # Threads have a block each: they wait for nobody, and share two cores well with those that read and write.
        is_large = int(block.texts.lengths.sum()) > self._block_bytes  # a document that could not be cut
        batch = self._tokenizer.encode_batch(
            block.texts,
            dtype=np.uint32 if self._end is not None else self._id_type,
            num_threads=self._threads if is_large else 1,
            **self._options,
        )
        return batch if self._end is None else ended(batch, self._end)

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
        given = self._inputs[int(block.places[number, INPUT])]
        fault = Fault(given.shown, given.where(int(block.places[number, NUMBER])), reason)
        if self._stop_at_fault:
            raise InputError(str(fault))
        return fault

    def _encode_part(self, block: Block, part: bytes) -> Encoded:
        """The ids that a part of a document decides; a fault with the last part means that there is no document."""
        if self._stream is None:
            self._stream, self._broken, self._part_bytes = self._tokenizer.stream_encoder(**self._options), "", 0
        ids: list[AnyIds] = [np.empty(0, np.uint32)]
        try:
            if not self._broken and not block.faults:
                ids += [self._stream.feed(part[begin : begin + _PART]) for begin in range(0, len(part), _PART)]
                self._part_bytes += len(part)
                if not block.more:
                    ids.append(self._stream.finish())
        except ValueError as error:
            self._broken = "not UTF-8" if isinstance(error, UnicodeError) else _first_sentence(error)
        faults = list(block.faults)
        if self._broken and not faults and (self._stop_at_fault or not block.more):
            faults.append((0, self._fault(block, 0, self._broken)))
        if not block.more:
            self._stream = None
            if self._end is not None:
                ids.append(np.array([self._end], np.uint32))
        return Encoded(replace(block, part=b"", faults=faults), _one(np.concatenate(ids)), self._part_bytes)


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

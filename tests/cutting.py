"""Pieces of a text by a compiled split rule, and by the references."""

import numpy as np
import tokenizers
from tokenizers import pre_tokenizers

from numbatok.kernels import dtypes
from numbatok.kernels.walk_automaton import walk_automaton
from numbatok.memory import address_of
from numbatok.patterns.compile import CompiledRule, compile_rule
from numbatok.patterns.rules import Split
from numbatok.scratch import Scratch

Span = tuple[int, int]


class Cutter:
    """Calls the table walker alone, as encoding would: in chunks, with buffers that grow."""

    def __init__(self, *rule: Split) -> None:
        self.compiled: CompiledRule = compile_rule(rule)
        self.view = np.zeros(dtypes.VIEW_FIELDS, np.int64)
        self._set(dtypes.VIEW_CLASSES, self.compiled.classes)
        self._set(dtypes.VIEW_PROGRAM, self.compiled.program)
        self.view[dtypes.VIEW_DROPS] = self.compiled.drops
        self.scratch = Scratch(self.view)
        self.walked = 0  # bytes of all blocks walked

    def _set(self, field: int, array: np.ndarray) -> None:
        self.view[field] = address_of(array)
        self.view[field + 1] = len(array)

    def walk(self, data: np.ndarray, base: int, stop: int, blocks: int) -> int:
        """One walk, repeated with larger buffers where it asks for them."""
        while True:
            self.walked += 64 * blocks
            decided = walk_automaton(
                address_of(self.view), self.scratch.address, address_of(data), len(data), base, stop, blocks
            )
            if decided >= 0:
                return decided
            self.scratch.mend(decided)

    def bits(self, field: int, blocks: int) -> np.ndarray:
        """The bitmap of a field, a bool a byte of text."""
        words = self.scratch._arrays[field][:blocks].astype("<u8")
        return np.unpackbits(words.view(np.uint8), bitorder="little").astype(bool)

    def pieces(self, text: str | bytes, chunk: int | None = None) -> list[Span]:
        """The pieces (first byte, end) that are kept; ``chunk`` blocks are walked at a time, or all."""
        content = text.encode() if isinstance(text, str) else text
        data = np.frombuffer(content or b"\0", np.uint8)
        length, base = len(content), 0
        starts: list[int] = []
        dropped: set[int] = set()
        blocks = chunk or -(-length // 64)
        while base < length:
            used = min(blocks, -(-(length - base) // 64))
            if used + 1 > len(self.scratch._arrays[dtypes.WORK_STARTS]):
                self.scratch.record[dtypes.WORK_NEEDED] = used + 1
                self.scratch.mend(dtypes.NEED_BITMAP)
            decided = self.walk(data, base, length, used)
            found = base + np.flatnonzero(self.bits(dtypes.WORK_STARTS, used))
            assert found[0] == base
            assert found[-1] < length
            found = found[found < decided]
            if self.compiled.drops:
                dropped |= set((base + np.flatnonzero(self.bits(dtypes.WORK_DROPPED, used))).tolist())
            if decided == length:
                starts += found.tolist()
                break
            # One step: the last start may begin an unfinished piece. More: `decided` is where to go on.
            further = decided if self.compiled.program[0] > 1 else int(found[-1]) if len(found) else base
            starts += [start for start in found.tolist() if start < further]
            blocks = 4 * blocks if further == base else (chunk or blocks)
            base = further
        edges = [*starts, length]
        return [(a, b) for a, b in zip(edges, edges[1:], strict=False) if a not in dropped]


def reference(*rule: Split) -> pre_tokenizers.PreTokenizer:
    """The same rule in ``tokenizers``."""
    steps = [
        pre_tokenizers.Split(tokenizers.Regex(split.pattern), split.behavior, split.invert) for split in rule
    ]
    return steps[0] if len(steps) == 1 else pre_tokenizers.Sequence(steps)


def reference_pieces(steps: pre_tokenizers.PreTokenizer, text: str) -> list[Span]:
    """The pieces (first byte, end) of a text by a pre-tokenizer of ``tokenizers``."""
    edges = np.cumsum([0, *(len(character.encode()) for character in text)]).tolist()
    return [(edges[a], edges[b]) for _, (a, b) in steps.pre_tokenize_str(text)]

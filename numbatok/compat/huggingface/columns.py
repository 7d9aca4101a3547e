"""The fields of an encoding as lists, and what ``tokenizers`` does to them: truncating, merging, padding."""

from collections.abc import Iterable
from typing import Any

from numbatok.rows import Side

_LISTS = ("ids", "type_ids", "tokens", "words", "offsets", "special", "attention")


class Columns:
    """What an encoding holds, an item for each id; ``overflowing`` are the windows that truncation cut off.

    Attributes
    ----------
    ranges : the ids of each sequence, (first, the one after the last), as far as they are known. Where a sequence has
        none it has all ids.
    """

    __slots__ = (*_LISTS, "overflowing", "ranges")

    def __init__(
        self,
        ids: list[int],
        type_ids: list[int],
        tokens: list[str],
        words: list[int | None],
        offsets: list[tuple[int, int]],
        special: list[int],
        attention: list[int],
        overflowing: "list[Columns] | None" = None,
        ranges: dict[int, tuple[int, int]] | None = None,
    ) -> None:
        self.ids = ids
        self.type_ids = type_ids
        self.tokens = tokens
        self.words = words
        self.offsets = offsets
        self.special = special
        self.attention = attention
        self.overflowing = [] if overflowing is None else overflowing
        self.ranges = {} if ranges is None else ranges

    @classmethod
    def empty(cls) -> "Columns":
        """Those of no ids."""
        return cls([], [], [], [], [], [], [])

    @classmethod
    def of_specials(cls, ids: list[int], type_id: int, tokens: list[str]) -> "Columns":
        """Those of special tokens of a template."""
        count = len(ids)
        return cls(ids, [type_id] * count, tokens, [None] * count, [(0, 0)] * count, [1] * count, [1] * count)

    def __reduce__(self) -> tuple[type["Columns"], tuple[Any, ...]]:
        return Columns, (*(getattr(self, name) for name in _LISTS), self.overflowing, self.ranges)

    def __len__(self) -> int:
        return len(self.ids)

    def copy(self) -> "Columns":
        """The same in lists of their own."""
        copied = self.part(0, len(self))
        copied.overflowing, copied.ranges = [each.copy() for each in self.overflowing], dict(self.ranges)
        return copied

    def part(self, start: int, stop: int) -> "Columns":
        """Some of the ids, without what is known of sequences."""
        return Columns(*(getattr(self, name)[start:stop] for name in _LISTS))

    def range_of(self, sequence: int) -> tuple[int, int]:
        """The ids of a sequence: (first, the one after the last)."""
        return self.ranges.get(sequence, (0, len(self)))

    def set_sequence(self, sequence: int) -> None:
        """Let all ids be those of a sequence."""
        self.ranges[sequence] = 0, len(self)

    def truncate(self, length: int, stride: int, direction: Side) -> None:
        """Keep ``length`` ids; the rest goes to ``overflowing``, in windows that share ``stride`` ids."""
        count = len(self)
        if length >= count:
            return
        if length == 0:
            whole = self.part(0, count)
            whole.overflowing, whole.ranges = self.overflowing, self.ranges
            self._become(Columns.empty(), [whole])
            return
        if stride >= length:
            raise ValueError(
                f"stride must be smaller than the number of ids that are kept, {length}, not {stride}; that is "
                "max_length less the special tokens of the template"
            )
        step = length - stride
        spans = []
        if direction == "right":
            for start in range(0, count, step):
                spans.append((start, min(start + length, count)))
                if spans[-1][1] == count:
                    break
        else:
            for stop in range(count, 0, -step):
                spans.append((max(stop - length, 0), stop))
                if spans[-1][0] == 0:
                    break
        first, *rest = (self.part(*span) for span in spans)
        self._become(first, rest)

    def _become(self, other: "Columns", overflowing: "list[Columns]") -> None:
        for name in _LISTS:
            setattr(self, name, getattr(other, name))
        self.overflowing, self.ranges = overflowing, {}

    def merge(self, other: "Columns", growing_offsets: bool = False) -> None:
        """Append another encoding; each window of one goes with each of the other.

        Windows of windows come about as in ``tokenizers``: each is merged with all that overflowed from the other one.
        """
        overflowing = []
        for own in self.overflowing:
            for theirs in (other, *other.overflowing):
                window = own.copy()
                window.merge(theirs.copy(), growing_offsets)
                overflowing.append(window)
        for theirs in other.overflowing:
            window = self.copy()
            window.merge(theirs.copy(), growing_offsets)
            overflowing.append(window)
        count = len(self)
        for sequence, (start, stop) in other.ranges.items():
            self.ranges[sequence] = count + start, count + stop
        offsets = other.offsets
        if growing_offsets and self.offsets:
            base = self.offsets[-1][1]
            offsets = [(base + start, base + stop) for start, stop in offsets]
        for name in _LISTS:
            getattr(self, name).extend(offsets if name == "offsets" else getattr(other, name))
        self.overflowing = overflowing

    def pad(self, length: int, direction: Side, pad_id: int, pad_type_id: int, pad_token: str) -> None:
        """Fill up to ``length`` ids, the windows too."""
        for window in self.overflowing:
            window.pad(length, direction, pad_id, pad_type_id, pad_token)
        count = length - len(self)
        if count <= 0:
            return
        fillings: Iterable[Any] = (pad_id, pad_type_id, pad_token, None, (0, 0), 1, 0)
        for name, filling in zip(_LISTS, fillings, strict=True):
            own = getattr(self, name)
            filled = [filling] * count
            setattr(self, name, filled + own if direction == "left" else own + filled)
        if direction == "left":
            self.ranges = {which: (start + count, stop + count) for which, (start, stop) in self.ranges.items()}


def truncate_together(
    first: Columns, second: Columns | None, max_length: int, stride: int, strategy: str, direction: Side
) -> None:
    """Truncate one encoding, or a pair, to ``max_length`` ids together."""
    if max_length == 0:
        for each in (first, second):
            if each is not None:
                each.truncate(0, stride, direction)
        return
    total = len(first) + (0 if second is None else len(second))
    excess = total - max_length
    if excess <= 0:
        return
    if strategy == "longest_first":
        if second is None:
            first.truncate(max_length, stride, direction)
            return
        shorter, longer = sorted((len(first), len(second)))
        longer = shorter if shorter > max_length else max(shorter, max_length - shorter)
        if shorter + longer > max_length:
            shorter = max_length // 2
            longer = shorter + max_length % 2
        lengths = (longer, shorter) if len(first) > len(second) else (shorter, longer)
        first.truncate(lengths[0], stride, direction)
        second.truncate(lengths[1], stride, direction)
        return
    target = first if strategy == "only_first" else second
    if target is None:
        raise ValueError('the truncation strategy "only_second" cuts second texts, and there is none')
    if len(target) <= excess:
        raise ValueError(
            f"there are {excess} ids more than {max_length}, and the text that is cut by {strategy!r} has {len(target)}"
        )
    target.truncate(len(target) - excess, stride, direction)

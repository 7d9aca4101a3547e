"""What locating ids knows of each token: its bytes, the characters that begin in it, the blanks at its ends."""

import functools
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from numbatok.kernels import offset_plan
from numbatok.normalizers.frozen import text_of
from numbatok.parts import Parts
from numbatok.patterns.unicode import white_space

if TYPE_CHECKING:
    from numbatok.engine import Engine

Places = npt.NDArray[np.int64]


@functools.cache
def trimmed_blanks() -> str:
    """What trimming takes for white space in the string of a token."""
    return text_of(np.flatnonzero(white_space())) + chr(offset_plan.SPELLED_BLANK)


def blanks_around(value: str) -> tuple[int, int]:
    """Characters at the begin and at the end of a token's string that trimming takes for white space."""
    return len(value) - len(value.lstrip(trimmed_blanks())), len(value) - len(value.rstrip(trimmed_blanks()))


def tables_of(engine: "Engine", parts: Parts) -> tuple[npt.NDArray[np.uint64], Places]:
    """(a word about each id, see ``INFO_...``; its bytes, and blanks at its ends), by row of the byte decoder."""
    decoder = engine.tokens
    data, starts = decoder.contents
    begins, ends = starts[:-1], starts[1:]
    lengths = ends - begins
    leads_before = np.zeros(len(data) + 1, np.int64)
    np.cumsum(data & 0xC0 != 0x80, out=leads_before[1:])
    leads = leads_before[ends] - leads_before[begins]
    filled = lengths > 0
    safe = np.where(filled, begins, 0)
    begins_inside = filled & (data[safe] & 0xC0 == 0x80)
    ends_inside = filled & (leads == 0)
    found = np.zeros(len(lengths), np.bool_)  # the last character's first byte
    opened = np.zeros(len(lengths), np.int64)  # what is there and what is missing of it, if the token does not end it
    for back in range(1, 4):
        place = np.where(lengths >= back, ends - back, 0)
        byte = data[place]
        is_lead = (lengths >= back) & (byte & 0xC0 != 0x80) & ~found
        found |= is_lead
        width = 1 + (byte >= 0xC0).astype(np.int64) + (byte >= 0xE0) + (byte >= 0xF0)
        is_open = is_lead & (width > back)
        ends_inside |= is_open
        sizes = back << offset_plan.INFO_PRESENT_SHIFT | (width - back) << offset_plan.INFO_MISSING_SHIFT
        opened[is_open] = sizes[is_open]
    blanks = np.zeros((len(lengths), 2), np.int64)
    if parts.trims:
        by_byte = parts.vocabulary.options.unit == "byte"
        firsts = [character.encode()[0] for character in trimmed_blanks()]
        lasts = [character.encode()[-1] for character in trimmed_blanks()]
        candidates = filled & (np.isin(data[safe], firsts) | np.isin(data[np.maximum(ends - 1, 0)], lasts))
        raw = data.tobytes()
        for number in np.flatnonzero(candidates).tolist():
            token = raw[begins[number] : ends[number]]
            if by_byte and number < len(parts.vocabulary):  # spelled in the byte alphabet
                blanks[number] = len(token) - len(token.lstrip(b" ")), len(token) - len(token.rstrip(b" "))
            else:
                blanks[number] = blanks_around(token.decode("utf-8", "replace"))
    words = _words(lengths, leads, blanks)
    words |= opened.astype(np.uint64)
    words |= begins_inside.astype(np.uint64) * np.uint64(offset_plan.INFO_BEGINS_INSIDE)
    words |= ends_inside.astype(np.uint64) * np.uint64(offset_plan.INFO_ENDS_INSIDE)
    numbers = decoder.numbers
    known = numbers >= 0
    info = np.full(len(numbers), np.uint64(offset_plan.INFO_VARIES))
    info[known] = words[numbers[known]]
    lengths_of = np.zeros((len(numbers), 3), np.int64)
    lengths_of[known] = np.column_stack([lengths, blanks])[numbers[known]]
    _enter_added(engine, parts, info, lengths_of)
    return info, lengths_of


def _words(lengths: Places, leads: Places, blanks: Places) -> npt.NDArray[np.uint64]:
    """The words about tokens of so many bytes, characters that begin in them, and blanks at their ends."""
    fits = (lengths <= offset_plan.INFO_LENGTH) & (leads <= offset_plan.INFO_CHARACTERS)
    fits &= (blanks <= offset_plan.INFO_BLANKS).all(axis=1)
    behind = np.where(blanks[:, 0] < leads, blanks[:, 1], 0)  # of nothing but blanks, all are left out once
    words = (
        lengths
        | leads << offset_plan.INFO_CHARACTERS_SHIFT
        | blanks[:, 0] << offset_plan.INFO_BEFORE_SHIFT
        | behind << offset_plan.INFO_BEHIND_SHIFT
    )
    return np.where(fits, words, offset_plan.INFO_VARIES).astype(np.uint64)


def _enter_added(engine: "Engine", parts: Parts, info: npt.NDArray[np.uint64], lengths_of: Places) -> None:
    """Enter what added tokens are in the text where they are looked for: normalized, or with white space around."""
    tokens = list(parts.added_tokens)
    rows = engine.tokens.rows_of(np.array([token.id for token in tokens], np.uint32))
    spelled: dict[int, set[bytes]] = {}
    for token, row in zip(tokens, rows.tolist(), strict=True):
        content = token.content
        if token.normalized and parts.normalizer is not None:
            content = parts.normalizer.normalize(content)
        data = content.encode()
        owners = spelled.setdefault(row, set())
        owners.add(data)
        symbol = np.flatnonzero(parts.vocabulary.ids == token.id)
        if len(symbol):
            begin, end = parts.vocabulary.starts[symbol[0] : symbol[0] + 2]
            owners.add(parts.vocabulary.data[begin:end].tobytes())
        blanks = blanks_around(content) if parts.trims else (0, 0)
        lengths_of[row] = end - begin if len(symbol) else len(data), *blanks
        sizes = [np.array(each, np.int64) for each in ([len(data)], [len(content)], [blanks])]
        word = _words(*sizes)[0]
        around = content[: blanks[0]] + content[len(content) - blanks[1] :]
        if token.flags or len(owners) > 1 or not around.isascii():
            word = np.uint64(offset_plan.INFO_VARIES)
        info[row] = word

"""Where the UTF-8 of texts is: in place where CPython has it, else made, repaired or refused."""

from typing import Any

import numpy as np
import numpy.typing as npt

from numbatok.columns import Column, Texts
from numbatok.documents import Addresses
from numbatok.kernels import dtypes, text, utf8
from numbatok.memory import address_of
from numbatok.scratch import Scratch
from numbatok.scratches import Scratches
from numbatok.text import WELL_FORMED, as_bytes, raise_invalid, repair_surrogates
from numbatok.utf8 import first_invalid, transcode, transcode_texts

MANY_TEXTS = 64


class Placer:
    """Finds texts in memory for the callers of one tokenizer."""

    def __init__(self, scratches: Scratches) -> None:
        self._scratches = scratches
        self._last_transcoded = (0, 0, ""), 0

    def place_all(self, texts: Texts, errors: str, kept: list[Any], threads: int | None = 1) -> Addresses:
        """Where the UTF-8 of texts is; what keeps it valid, besides the texts, goes to ``kept``."""
        if isinstance(texts, Column):
            return texts.place(errors, kept, threads)
        count = len(texts)
        if count == 1 and isinstance(texts[0], str):
            with self._scratches.one() as scratch:
                source, length = self.place(scratch, texts[0], errors, threads)
                if source is not texts[0]:
                    kept.append(source)
                return np.array([scratch.record[dtypes.WORK_TEXT]]), np.array([length], np.int64)
        addresses, lengths = np.empty(count, np.int64), np.empty(count, np.int64)
        kinds = np.zeros(count, np.int8)
        as_characters = self._transcodes(texts)
        text.locate_list(id(texts), count, address_of(addresses), address_of(lengths), address_of(kinds), as_characters)
        if as_characters:
            numbers = np.flatnonzero(kinds & text.IS_CHARACTERS)
            widths = kinds[numbers] & ~text.IS_CHARACTERS
            data, places, sizes = transcode_texts(addresses[numbers], lengths[numbers], widths, threads)
            kept.append(data)
            addresses[numbers], lengths[numbers] = places, sizes
            kinds[numbers] = np.where(sizes < 0, text.IS_NEITHER, text.IS_STR)
        for index in np.flatnonzero(kinds).tolist() if kinds.any() else ():
            where = f" at index {index} of the batch" if count > 1 else ""
            data = prepare(texts[index], errors, where, threads)
            kept.append(data)
            addresses[index], lengths[index] = address_of(data), len(data)
        return addresses, lengths

    @staticmethod
    def _transcodes(texts: list[Any]) -> bool:
        """Whether the UTF-8 of those texts of a list that are not ASCII is made here, and given back after the call.

        CPython makes one after the other, at a tenth of the speed where the processor has an instruction for it, and
        keeps them inside the texts. Of 13,000 Russian ones that was a third of a first pass. A few, or one among many,
        are left to it.
        """
        if len(texts) < MANY_TEXTS or not utf8.transcodes_fast():
            return False
        sample = texts[:: len(texts) // MANY_TEXTS]
        return sum(isinstance(item, str) and not item.isascii() for item in sample) > MANY_TEXTS // 8

    def place(self, scratch: Scratch, source: Any, errors: str, threads: int | None = 1) -> tuple[Any, int]:
        """Point the scratch at the UTF-8 of a text; return what keeps it valid, and its bytes.

        What keeps it is the text, or an array, or a ``str`` without the lone surrogates of the text.
        """
        data = None
        if isinstance(source, str) and len(source) >= text.LONG_TEXT and not source.isascii():
            data = self._transcode(scratch, source, threads)
        if data is None:
            length = text.locate_text(id(source), scratch.address)
            if length >= 0:
                return source, length
            if isinstance(source, str) and errors != WELL_FORMED:
                source = repair_surrogates(source)
                return source, text.locate_text(id(source), scratch.address)
            data = prepare(source, errors, "", threads)
        scratch.restart()
        scratch.record[dtypes.WORK_TEXT] = address_of(data)
        scratch.record[dtypes.WORK_TEXT + dtypes.LIST] = len(data)
        return data, len(data)

    def _transcode(self, scratch: Scratch, source: str, threads: int | None) -> npt.NDArray[np.uint8] | None:
        """The UTF-8 of a long ``str`` in an array of its own, or None where CPython's is to be taken.

        CPython makes the UTF-8 of a non-ASCII ``str`` on demand, in up to ten times the time, and
        keeps it inside: the text's size in memory for its lifetime. Most texts are encoded once, or counted and
        encoded: their first two times cost an array that is given back. One that comes at once a third time gets
        CPython's, which then is free.
        """
        # No reference is kept, so another text may come to lie at the same place: characters from all over tell it.
        mark = id(source), len(source), source[:: len(source) // 64]
        last, times = self._last_transcoded
        times = times + 1 if mark == last else 1
        self._last_transcoded = mark, times
        if times > 2:
            return None
        width = text.locate_characters(id(source), scratch.address)
        return transcode(int(scratch.record[dtypes.WORK_TEXT]), len(source), width, threads)


def prepare(source: Any, errors: str, where: str = "", threads: int | None = 1) -> npt.NDArray[np.uint8]:
    """The UTF-8 of a text that is not a well-formed ``str``: repaired, checked, or refused."""
    if isinstance(source, str):
        repaired = source if errors == WELL_FORMED else repair_surrogates(source)
        return np.frombuffer(repaired.encode(), np.uint8)
    data = as_bytes(source, where)
    if first_invalid(data, threads) < 0:
        return data
    if errors == "strict":
        raise_invalid(data, where)
    return np.frombuffer(data.tobytes().decode("utf-8", "replace").encode(), np.uint8)

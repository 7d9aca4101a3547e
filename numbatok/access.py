"""The arrays that :mod:`numbatok.kernels.inside` works with: a tokenizer's view, and a scratch in one piece."""

import random
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from numbatok.kernels import decode, dtypes, inside
from numbatok.memory import address_of
from numbatok.parts import Parts
from numbatok.scratch import Scratch

if TYPE_CHECKING:
    from numbatok.engine import Engine

_ALIGNMENT = 64
LEAST_CACHE = 1 << 18  # bytes


def kernel_view(engine: "Engine", parts: Parts) -> npt.NDArray[np.int64]:
    """The view of an engine, with what decoding needs; the ValueError names all that no kernel can do."""
    reasons = [
        reason
        for reason, holds in (
            ("normalizes text", parts.normalizer is not None and engine.changes_text),
            ("puts a space before a text", parts.prefix_space),
            ("runs its split rule by the package regex", engine.regex_rule is not None),
            ("decodes ids as strings, by a decoder's steps", bool(parts.decoder)),
            ("has ids that lie far apart", not engine.decoder.is_direct),
        )
        if holds
    ]
    if reasons:
        raise ValueError(
            f"this tokenizer has no view for other kernels, as it {', and '.join(reasons)}; use encode_batch and "
            "decode_batch"
        )
    view = np.zeros(inside.ACCESS_FIELDS, np.int64)
    view[: dtypes.VIEW_FIELDS] = engine.view_record
    view[inside.DECODER] = decode.decode_documents.address
    view[inside.TABLES : inside.TABLES + 6] = engine.decoder.lookup
    view[-2], view[-1] = engine.number, inside.LAYOUT
    return view


def new_scratch(engine: "Engine", cache_bytes: int, longest: int, seed: int | None) -> npt.NDArray[np.int64]:
    """One array that holds a scratch's record and all of its buffers."""
    model = Scratch(engine.view_record)
    model.set_actions(engine.everything_allowed)
    model.fix_sizes(cache_bytes, longest)
    record = model.record.copy()
    record[dtypes.WORK_RANDOM] = random.Random(seed).getrandbits(63)
    tables = model.tables()
    size = len(record) + 1 + _ALIGNMENT // 8 + sum(_words(table) for table in tables.values())
    whole = np.zeros(size, np.int64)
    place = len(record) + 1  # a word that stays 0, where the kernels look whether to stop
    record[dtypes.WORK_STOP] = address_of(whole) + 8 * len(record)
    for field, table in tables.items():
        place += -(address_of(whole) // 8 + place) % (_ALIGNMENT // 8)
        target = whole[place:].view(table.dtype)[: len(table)]
        target[:] = table
        record[field], record[field + 1] = address_of(whole) + 8 * place, len(table)
        place += -(-table.nbytes // 8)
    whole[: len(record)] = record
    whole[-1] = engine.number
    return whole


def _words(table: npt.NDArray[np.generic]) -> int:
    """Words that a table takes, aligned."""
    return -(-table.nbytes // 8) + _ALIGNMENT // 8

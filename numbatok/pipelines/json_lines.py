"""JSON Lines: lines to the texts in one field of them, and the fields that are carried along."""

import ctypes
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from numbatok.columns import Column
from numbatok.memory import address_of
from numbatok.pipelines.blocks import Block, Fault
from numbatok.pipelines.inputs import Input
from numbatok.rows import library
from numbatok.text import repair_surrogates


def parsed(block: Block, inputs: Sequence[Input], field: str, columns: Sequence[str], errors: str) -> Block:
    """The documents in a field of the lines of a block; empty lines are passed over.

    ``columns`` are the fields to be carried along; ``errors`` says what is done where a line is not UTF-8.
    """
    from numbatok.kernels.json_lines import ABSENT, ADDRESS, BYTES, KIND, NULL, STRING
    from numbatok.kernels.json_parts import ODD

    lines, names = block.texts, list(dict.fromkeys([field, *columns]))
    values, spelled_out = _values(lines, names)
    kept: list[Any] = [lines, spelled_out]
    records: dict[int, dict[str, Any]] = {}  # of the lines that are left to Python
    bad: dict[int, Fault] = {}
    empty: list[int] = []
    odd = np.flatnonzero(values[:, 0, KIND] == ODD)
    values[odd] = ABSENT
    for number in odd.tolist():
        line = lines[number]
        if not line or line.isspace():
            empty.append(number)
            continue
        try:
            records[number], text = _checked(line, field, errors)
        except (ValueError, RecursionError) as error:
            bad[number] = block.fault(inputs, number, _reason(error))
            continue
        data = np.frombuffer(repair_surrogates(text or "").encode(), np.uint8)
        kept.append(data)
        values[number, 0] = NULL if text is None else STRING, address_of(data), len(data)
    is_null = values[:, 0, KIND] == NULL
    texts = Column(
        values[:, 0, ADDRESS].copy(),
        np.where(is_null, 0, values[:, 0, BYTES]),
        kept,
        ~is_null if is_null.any() else None,
        checked=True,
    )
    carried = _carried(values, names, records, columns) if columns else None
    return Block(texts, block.places, block.consumed, block.faults, carried).without(bad, empty)


def _values(lines: Column, names: list[str]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """(int64[lines, names, VALUE_FIELDS], what ``find_fields`` finds; what strings with escapes say, to be kept)."""
    from numbatok.kernels.json_lines import KIND, VALUE_FIELDS, find_fields
    from numbatok.kernels.json_parts import ODD, STRING_SLACK

    encoded = [name.encode("utf-8", "surrogatepass") for name in names]
    edges = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    spelled = np.frombuffer(b"".join(encoded), np.uint8)
    values = np.zeros((len(lines), len(names), VALUE_FIELDS), np.int64)
    values[lines.invalid(), 0, KIND] = ODD
    texts = np.empty(int(lines.lengths.sum()) + STRING_SLACK, np.uint8)
    places = address_of(lines.addresses), address_of(lines.lengths), len(lines)
    places_of_names = address_of(spelled), address_of(edges), len(names)
    find_fields(*places, *places_of_names, address_of(values), address_of(texts), len(texts))
    return values, texts


def _checked(line: bytes, field: str, errors: str) -> tuple[dict[str, Any], str | None]:
    """(record, text) of a line; ValueError or RecursionError that says what is wrong with it."""
    record = json.loads(str(line, "utf-8", errors).removeprefix("\ufeff"))  # some programs begin their files so
    if not isinstance(record, dict):
        raise ValueError(f"an object with the field {field!r} is wanted, not {type(record).__name__}")
    if field not in record:
        raise ValueError(f"has no field {field!r}, but {', '.join(map(repr, record)) or 'none'}"[:200])
    text = record[field]
    if text is not None and not isinstance(text, str):
        raise ValueError(f"the field {field!r} must be a string, not {type(text).__name__}")
    return record, text


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8 at byte {error.start} of the line"
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON at character {error.pos}: {error.msg.removesuffix(' at')}"
    return "JSON that is nested too deeply" if isinstance(error, RecursionError) else str(error)


def _carried(
    values: npt.NDArray[np.int64], names: list[str], records: dict[int, dict[str, Any]], columns: Sequence[str]
) -> Any:
    """A ``pyarrow.Table`` of the fields that are carried along: strings as they are, others as JSON."""
    from numbatok.kernels.json_lines import ABSENT, NULL

    pyarrow = library("pyarrow", "arrow", "carrying columns")
    arrays = []
    for name in columns:
        found = values[:, names.index(name)].tolist()
        strings = [
            None if kind in (ABSENT, NULL) else ctypes.string_at(place, size).decode() for kind, place, size in found
        ]
        for number, record in records.items():
            strings[number] = _as_string(record.get(name))
        arrays.append(pyarrow.array(strings, pyarrow.string()))
    return pyarrow.table(arrays, names=list(columns))


def _as_string(value: Any) -> str | None:
    """A value of a line that Python has read."""
    if value is None:
        return None
    return repair_surrogates(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))

"""JSON Lines: lines to the texts in one field of them, and the fields that are carried along."""

import ctypes
import json
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

from numbatok.columns import Column
from numbatok.pipelines.blocks import Block, Fault
from numbatok.pipelines.inputs import Input
from numbatok.rows import library


def _slow(line: memoryview, errors: str = "strict") -> Any:
    """What a line holds, by the standard library."""
    return json.loads(str(line, "utf-8", errors).removeprefix("\ufeff"))  # some programs begin their files so


def _fast() -> Callable[[memoryview], Any]:
    """The same by orjson, where it is installed; NaN, lone surrogates and byte order marks it refuses."""
    try:
        loads: Callable[[memoryview], Any] = import_module("orjson").loads
    except ImportError:
        return _slow
    return loads


def _checked(line: memoryview, field: str, errors: str) -> tuple[dict[str, Any], str | None]:
    """(record, text) of a line; ValueError or RecursionError that says what is wrong with it."""
    record = _slow(line, errors)
    if not isinstance(record, dict):
        raise ValueError(f"an object with the field {field!r} is wanted, not {type(record).__name__}")
    if field not in record:
        raise ValueError(f"has no field {field!r}, but {', '.join(map(repr, record)) or 'none'}"[:200])
    text = record[field]
    if text is not None and not isinstance(text, str):
        raise ValueError(f"the field {field!r} must be a string, not {type(text).__name__}")
    return record, text


def _views(texts: Column) -> Iterator[memoryview]:
    """Texts in place."""
    if len(texts) == 0:
        return
    # Of all memory from the first to the last, also of what lies between buffers, which no view is about.
    base = int(texts.addresses.min())
    begins = texts.addresses - base
    ends = begins + texts.lengths
    whole = (ctypes.c_ubyte * int(ends.max())).from_address(base)
    view = memoryview(whole).cast("B")
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        yield view[begin:end]


def parsed(block: Block, inputs: Sequence[Input], field: str, columns: Sequence[str], errors: str) -> Block:
    """The documents in a field of the lines of a block; empty lines are passed over.

    ``columns`` are the fields to be carried along; ``errors`` says what is done where a line is not UTF-8.
    """
    loads = _fast()
    texts: list[str | None] = []
    kept: list[int] = []
    rows: list[list[str | None]] = []
    faults: list[tuple[int, Fault]] = []
    for index, line in enumerate(_views(block.texts)):
        try:
            record = loads(line)
            text = record[field]
            is_plain = text is None or text.__class__ is str
        except (ValueError, LookupError, TypeError, RecursionError):
            is_plain = False
        if not is_plain:  # few lines, looked at closely
            try:
                record, text = _checked(line, field, errors)
            except (ValueError, RecursionError) as error:
                if line and not bytes(line).isspace():
                    faults.append((index, block.fault(inputs, index, _reason(error))))
                continue
        texts.append(text)
        kept.append(index)
        if columns:
            rows.append([_as_string(record.get(name)) for name in columns])
    carried = None
    if columns:
        pyarrow = library("pyarrow", "arrow", "carrying columns")
        values = zip(*rows, strict=True) if rows else [()] * len(columns)
        arrays = [pyarrow.array(list(column), pyarrow.string()) for column in values]
        carried = pyarrow.table(arrays, names=list(columns))
    faults = sorted([*block.faults, *faults], key=lambda item: item[0])
    return Block(
        Column.of_strings(texts),
        block.places[kept],
        block.consumed,
        [(bisect_left(kept, at), fault) for at, fault in faults],
        carried,
    )


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8 at byte {error.start} of the line"
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON: {error.msg} at character {error.pos}"
    return "JSON that is nested too deeply" if isinstance(error, RecursionError) else str(error)


def _as_string(value: Any) -> str | None:
    """A value of JSON as it is carried along: strings as they are, others as JSON."""
    if value is None:
        return None
    string = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return string.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

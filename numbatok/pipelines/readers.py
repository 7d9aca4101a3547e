"""Readers: files to blocks of documents, each from any place that a run can be resumed at."""

import ctypes
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from numbatok.columns import Column, column_of
from numbatok.memory import address_of
from numbatok.pipelines.blocks import NUMBER, Block, Fault, InputError, nothing, resized
from numbatok.pipelines.inputs import READ_ERRORS, Input, Source
from numbatok.rows import library

Numbers = npt.NDArray[np.int64]

_MOST_ROWS = 1 << 16  # of a columnar file that are read at once


class Place(NamedTuple):
    """Where a run stands: behind a document of an input; see :class:`numbatok.pipelines.blocks.Block`."""

    input: int = 0
    position: int = 0
    number: int = 0


@dataclass(frozen=True)
class Reading:
    """How inputs are read.

    Attributes
    ----------
    separator : what stands between the documents of text, or None where each file is one
    field : the field of JSON Lines, or column, that holds the text
    columns : fields or columns to be carried along
    errors : what is done where JSON Lines are not UTF-8
    block_bytes : of text that are held at once
    in_parts : whether documents of text that are longer come in parts
    """

    separator: bytes | None
    field: str
    columns: Sequence[str]
    errors: str
    block_bytes: int
    in_parts: bool


class _Buffers:
    """Buffers of one size, which are used again when nobody has them any more.

    Fresh memory is dear: the first touch of it took 0.5 ms a MB, and reading a file into what was there 0.1.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.idle: list[bytearray] = []

    def take(self, size: int) -> "_Buffer":
        """A buffer of ``size`` bytes, of any content."""
        return _Buffer(self, self.idle.pop() if self.idle and size == self.size else bytearray(size))


class _Buffer:
    """What a block's texts are in."""

    def __init__(self, owner: _Buffers, data: bytearray) -> None:
        self.data, self._owner = data, owner

    def __del__(self) -> None:
        if len(self.data) == self._owner.size:
            self._owner.idle.append(self.data)


def read_all(inputs: Sequence[Input], reading: Reading, start: Place, stop_at_fault: bool) -> Iterator[Block]:
    """The documents of all inputs behind a place. Raises InputError for the first fault, if it is to stop there."""
    buffers = _Buffers(reading.block_bytes)

    def blocks() -> Iterator[Block]:
        done = sum(given.size or 0 for given in inputs[: start.input])
        for number in range(start.input, len(inputs)):
            place = start if number == start.input else Place(number)
            for block in _read(inputs[number], reading, buffers, place):
                if stop_at_fault and block.faults:
                    raise InputError(str(block.faults[0][1]))
                yield replace(block, consumed=done + block.consumed)
            done += inputs[number].size or 0

    return resized(blocks(), reading.block_bytes)


def _read(given: Input, reading: Reading, buffers: _Buffers, start: Place) -> Iterator[Block]:
    if given.format in ("parquet", "arrow"):
        yield from _columnar(given, reading, start)
        return
    try:
        source = Source(given.path)
    except READ_ERRORS as error:
        yield _fault(given, "", error)
        return
    with source:
        if given.format == "text":
            yield from _text(source, given, buffers, reading.separator, start, in_parts=reading.in_parts)
        else:
            for block in _text(source, given, buffers, b"\n", start, in_parts=False):
                yield _parsed(block, given, reading)


def _fault(given: Input, where: str, error: Exception) -> Block:
    """A block of nothing but a fault."""
    reason = error.strerror if isinstance(error, OSError) else None
    block = nothing()
    block.faults.append((0, Fault(given.shown, where, reason or str(error) or type(error).__name__)))
    block.consumed = given.size or 0
    return block


# --- text ---


def _text(
    source: Source, given: Input, buffers: _Buffers, separator: bytes | None, start: Place, *, in_parts: bool
) -> Iterator[Block]:
    """The documents of a text, between separators. Nothing, or nothing after the last separator, is no document."""
    number = start.number
    if separator is None and number:
        return
    try:
        whole = source.skip(start.position) if start.position else True
    except READ_ERRORS as error:
        yield _fault(given, "", error)
        return
    if not whole:
        raise InputError(f"{given.shown}: has fewer bytes than when the run began that is to be resumed")
    size = buffers.size
    if given.size is not None and source.is_plain:
        size = min(size, given.size - start.position + 1)
        size = max(size, 1)
    kept = buffers.take(size)
    buffer, filled, position, partial = kept.data, 0, start.position, False
    failure: Exception | None = None
    at_end = False
    while not at_end:
        searched = filled
        while filled < len(buffer):
            try:
                got = source.readinto(memoryview(buffer)[filled:])
            except READ_ERRORS as found:
                got, failure = 0, found
            filled += got
            if got == 0:
                at_end = True
                break
        ends = _separators(buffer, searched, filled, separator)
        if failure is None and at_end and (filled or partial or separator is None):
            last = int(ends[-1]) + len(separator) if len(ends) and separator else 0
            if last < filled or (not len(ends) and (partial or separator is None)):
                ends = np.append(ends, filled)
        if len(ends) == 0:
            if at_end:
                break
            if in_parts:
                keep = len(separator) - 1 if separator else 0
                cut = filled - keep
                part = bytes(memoryview(buffer)[:cut])
                places = np.array([[start.input, position, number + 1]])
                yield replace(nothing(), part=part, more=True, places=places, consumed=source.consumed)
                buffer[:keep] = buffer[cut:filled]
                filled, position, partial = keep, position + cut, True
            else:
                buffer += bytes(len(buffer))
            continue
        width = len(separator) if separator else 0
        begins = np.append(0, ends[:-1] + width)
        numbers = number + 1 + np.arange(len(ends))
        behind = np.minimum(ends + width, filled)
        places = np.stack([np.full(len(ends), start.input), position + behind, numbers], axis=1)
        used = int(behind[-1])
        if partial:
            first = bytes(memoryview(buffer)[: int(ends[0])])
            yield replace(nothing(), part=first, places=places[:1], consumed=source.consumed)
            begins, ends, places, partial = begins[1:], ends[1:], places[1:], False
        rest = bytes(memoryview(buffer)[used:filled])
        data = np.frombuffer(buffer, np.uint8)
        if len(ends):
            texts = Column(address_of(data) + begins, ends - begins, kept)
            yield Block(texts, places, source.consumed)
        number = int(numbers[-1])
        position += used
        if not at_end:
            # Of the same size always, whatever came before: so a document comes in parts in every run, or in none.
            kept = buffers.take(size if len(rest) < size else 2 * len(rest))
            buffer = kept.data
            buffer[: len(rest)] = rest
            filled = len(rest)
    if failure is not None:
        block = _fault(given, given.where(number + 1), failure)
        if partial:
            block.part = b""
        yield block


def _separators(buffer: bytearray, searched: int, filled: int, separator: bytes | None) -> Numbers:
    """Where in ``buffer[:filled]`` separators begin that do not lie within ``buffer[:searched]``."""
    if separator is None:
        return np.empty(0, np.int64)
    if len(separator) == 1:
        found = np.flatnonzero(np.frombuffer(buffer, np.uint8)[searched:filled] == separator[0])
        return found + searched
    places = []
    begin = max(0, searched - len(separator) + 1)
    while (begin := buffer.find(separator, begin, filled)) >= 0:
        places.append(begin)
        begin += len(separator)
    return np.array(places, np.int64)


# --- JSON Lines ---


def _loads() -> Callable[[Any], Any]:
    """What parses a line: orjson where it is installed, and the standard library where that refuses."""

    def slow(line: Any) -> Any:
        return json.loads(str(line, "utf-8").removeprefix("\ufeff"))  # some programs begin their files so

    try:
        fast: Callable[[Any], Any] = import_module("orjson").loads
    except ImportError:
        return slow

    def loads(line: Any) -> Any:
        try:
            return fast(line)
        except ValueError:  # NaN, lone surrogates and byte order marks among others
            return slow(line)

    return loads


def _views(texts: Column) -> Iterator[memoryview]:
    """Texts that follow each other in one buffer, in place."""
    if len(texts) == 0:
        return
    begins = texts.addresses - texts.addresses[0]
    ends = begins + texts.lengths
    whole = (ctypes.c_ubyte * int(ends[-1])).from_address(int(texts.addresses[0]))
    view = memoryview(whole).cast("B")
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        yield view[begin:end]


def _parsed(block: Block, given: Input, reading: Reading) -> Block:
    """The documents in lines of JSON; empty lines are passed over."""
    loads = _loads()
    texts: list[str | None] = []
    kept: list[int] = []
    rows: list[list[str | None]] = []
    faults: list[tuple[int, Fault]] = []
    numbers = block.places[:, NUMBER].tolist()
    field = reading.field
    for index, line in enumerate(_views(block.texts)):
        try:
            record = loads(str(line, "utf-8", "replace").encode() if reading.errors == "replace" else line)
            if not isinstance(record, dict):
                raise ValueError(f"an object with the field {field!r} is wanted, not {type(record).__name__}")
            if field not in record:
                raise ValueError(f"has no field {field!r}, but {', '.join(map(repr, record)) or 'none'}"[:200])
            text = record[field]
            if text is not None and not isinstance(text, str):
                raise ValueError(f"the field {field!r} must be a string, not {type(text).__name__}")
        except (ValueError, RecursionError) as error:
            if bytes(line).isspace() or not line:
                continue
            faults.append((len(texts), Fault(given.shown, given.where(numbers[index]), _json_reason(error))))
            continue
        texts.append(text)
        kept.append(index)
        if reading.columns:
            rows.append([_as_string(record.get(name)) for name in reading.columns])
    carried = None
    if reading.columns:
        pyarrow = library("pyarrow", "arrow", "carrying columns")
        values = zip(*rows, strict=True) if rows else [()] * len(reading.columns)
        arrays = [pyarrow.array(list(column), pyarrow.string()) for column in values]
        carried = pyarrow.table(arrays, names=list(reading.columns))
    after = [(len(texts), fault) for _, fault in block.faults]
    return Block(Column.of_strings(texts), block.places[kept], block.consumed, faults + after, carried)


def _json_reason(error: Exception) -> str:
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


# --- Parquet and Arrow ---


def _columnar(given: Input, reading: Reading, start: Place) -> Iterator[Block]:
    """The rows of a Parquet or Arrow file."""
    pyarrow = library("pyarrow", "arrow", f"reading {given.format} files")
    wanted = [reading.field, *(name for name in reading.columns if name != reading.field)]
    row = start.position
    if given.path == "-":
        raise InputError(f"standard input cannot be a {given.format} file, which is read in any order; name a file")
    try:
        batches = (_parquet if given.format == "parquet" else _arrow)(pyarrow, given, wanted, reading.block_bytes, row)
        for share, batch in batches:
            column = column_of(batch.column(reading.field))
            assert column is not None  # it is an Arrow array
            rows = row + np.arange(len(column))
            places = np.stack([np.full(len(rows), start.input), rows + 1, rows], axis=1)
            carried = pyarrow.table(batch).select(list(reading.columns)) if reading.columns else None
            yield Block(column, places, int(share * (given.size or 0)), carried=carried)
            row += len(column)
    except (*READ_ERRORS, pyarrow.ArrowException, TypeError, ValueError, KeyError) as error:
        yield _fault(given, given.where(row) + " and after" if row else "", error)


def _check_columns(names: Sequence[str], wanted: Sequence[str]) -> None:
    for name in wanted:
        if name not in names:
            raise ValueError(f"has no column {name!r}, but {', '.join(map(repr, names)) or 'none'}")


def _parquet(pyarrow: Any, given: Input, wanted: list[str], size: int, row: int) -> Iterator[tuple[float, Any]]:
    """(share of the rows that is read then, record batch) of a Parquet file from a row on."""
    parquet = import_module("pyarrow.parquet")
    # Columns are read as they are needed, not a row group at once.
    with parquet.ParquetFile(given.path, buffer_size=1 << 20, pre_buffer=False) as file:
        _check_columns(file.schema_arrow.names, wanted)
        metadata = file.metadata
        total = max(metadata.num_rows, 1)
        group = before = 0
        while group < metadata.num_row_groups and before + metadata.row_group(group).num_rows <= row:
            before += metadata.row_group(group).num_rows
            group += 1
        weight = sum(
            metadata.row_group(number).column(index).total_uncompressed_size
            for number in range(metadata.num_row_groups)
            for index in range(metadata.num_columns)
            if metadata.row_group(number).column(index).path_in_schema.split(".")[0] in wanted
        )
        rows = max(1, min(_MOST_ROWS, size * total // max(weight, 1)))
        groups = list(range(group, metadata.num_row_groups))
        for batch in file.iter_batches(rows, row_groups=groups, columns=wanted, use_threads=False):
            behind = before + len(batch)
            if behind > row:
                yield behind / total, batch.slice(max(row - before, 0))
            before = behind


def _arrow(pyarrow: Any, given: Input, wanted: list[str], size: int, row: int) -> Iterator[tuple[float, Any]]:
    """The same of an Arrow file, which Feather files are, or of a stream."""
    with pyarrow.OSFile(given.path) as raw:
        try:
            file = pyarrow.ipc.open_file(raw)
        except pyarrow.ArrowInvalid:
            raw.seek(0)
            file = pyarrow.ipc.open_stream(raw)
        _check_columns(file.schema.names, wanted)
        count = getattr(file, "num_record_batches", None)
        batches = file if count is None else map(file.get_batch, range(count))
        before = 0
        for number, batch in enumerate(batches):
            if before + len(batch) > row:
                share = raw.tell() / max(given.size or 0, 1) if count is None else (number + 1) / count
                yield share, batch.select(wanted).slice(max(row - before, 0))
            before += len(batch)

"""Readers: files to blocks of documents, each from any place that a run can be resumed at."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from numbatok.columns import Column, column_of
from numbatok.memory import address_of
from numbatok.pipelines.blocks import INPUT, NUMBER, PLACE_FIELDS, POSITION, Block, Fault, InputError, nothing, resized
from numbatok.pipelines.inputs import READ_ERRORS, Input, Source
from numbatok.rows import library

Numbers = npt.NDArray[np.int64]

_MOST_ROWS = 1 << 16  # of a columnar file that are read at once
_GROWTH = 1 << 20  # bytes that a buffer grows by for a document that must be held whole


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
    field : the column that holds the text
    carried : a ``pyarrow.Schema`` of the columns to be carried along, or None
    block_bytes : of text that are held at once
    in_parts : whether documents of text that are longer come in parts
    longest : bytes of a document that does not, a line of JSON among them, with what ends it
    """

    separator: bytes | None
    field: str
    carried: Any
    block_bytes: int
    in_parts: bool
    longest: int


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
                block.consumed += done
                yield block
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
            yield from _text(source, given, buffers, reading, start)
        else:
            lines = replace(reading, separator=b"\n", in_parts=False)
            for block in _text(source, given, buffers, lines, start):
                block.is_json = True
                yield block


def _fault(given: Input, where: str, error: Exception | str, consumed: int | None = None) -> Block:
    """A block of nothing but a fault."""
    reason = error.strerror if isinstance(error, OSError) else None
    block = nothing()
    block.faults.append((0, Fault(given.shown, where, reason or str(error) or type(error).__name__)))
    block.consumed = (given.size or 0) if consumed is None else consumed
    return block


def _places(number: int, positions: Numbers, first: int) -> Numbers:
    """A block's places: documents of an input that end at these positions, and count from ``first`` on."""
    places = np.empty((len(positions), PLACE_FIELDS), np.int64)
    places[:, INPUT], places[:, POSITION] = number, positions
    places[:, NUMBER] = np.arange(first, first + len(positions))
    return places


# --- text ---


class _Separators:
    """Finds what stands between documents; None stands nowhere."""

    def __init__(self, separator: bytes | None) -> None:
        self._wanted = np.frombuffer(separator or b"", np.uint8)
        self._room = np.empty(1 << 13, np.int64)

    def find(self, buffer: bytearray, searched: int, filled: int) -> Numbers:
        """Where in ``buffer[:filled]`` separators begin that do not lie within ``buffer[:searched]``."""
        from numbatok.kernels.separators import find_separators

        width, room = len(self._wanted), self._room
        if width == 0:
            return room[:0]
        places = address_of(self._wanted), width, address_of(room), len(room)
        text = address_of(np.frombuffer(buffer, np.uint8))
        found = []
        begin, count = max(0, searched - width + 1), len(room)
        while count == len(room):
            count = find_separators(text, begin, filled, *places)
            found.append(room[:count].copy())
            begin = int(room[count - 1]) + width
        return found[0] if len(found) == 1 else np.concatenate(found)


def _text(source: Source, given: Input, buffers: _Buffers, reading: Reading, start: Place) -> Iterator[Block]:
    """The documents of a text, between separators. Nothing, or nothing after the last separator, is no document."""
    separator, number = reading.separator, start.number
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
    width = len(separator) if separator else 0
    separators = _Separators(separator)
    kept = buffers.take(size)
    buffer, filled, position = kept.data, 0, start.position
    partial = lost = False  # whether the first document has begun before, to come in parts, or to be left out
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
        ends = separators.find(buffer, searched, filled)
        if failure is None and at_end and (filled or partial or lost or separator is None):
            last = int(ends[-1]) + width if len(ends) and separator else 0
            if last < filled or (not len(ends) and (partial or lost or separator is None)):
                ends = np.append(ends, filled)
        if len(ends) == 0:
            if at_end:
                break
            if not reading.in_parts and not lost and filled < reading.longest:
                buffer += bytes(min(_GROWTH, reading.longest - filled))
                continue
            keep = max(width - 1, 0)
            cut = filled - keep
            if reading.in_parts:
                part = bytes(memoryview(buffer)[:cut])
                places = np.array([[start.input, position, number + 1]])
                yield replace(nothing(), part=part, more=True, places=places, consumed=source.consumed)
                partial = True
            elif not lost:
                reason = f"has more than {reading.longest} bytes, the most that memory holds whole; allow it more"
                yield _fault(given, given.where(number + 1), reason, source.consumed)
                lost = True
            buffer[:keep] = buffer[cut:filled]
            filled, position = keep, position + cut
            continue
        begins = np.append(0, ends[:-1] + width)
        used = min(int(ends[-1]) + width, filled)
        places = _places(start.input, position + ends + width, number + 1)
        places[-1, POSITION] = position + used  # nothing need stand behind the last one
        number += len(ends)
        if partial:
            first = bytes(memoryview(buffer)[: int(ends[0])])
            yield replace(nothing(), part=first, places=places[:1], consumed=source.consumed)
        if partial or lost:
            begins, ends, places = begins[1:], ends[1:], places[1:]
            partial = lost = False
        rest = bytes(memoryview(buffer)[used:filled])
        if len(ends):
            texts = Column(address_of(np.frombuffer(buffer, np.uint8)) + begins, ends - begins, kept)
            yield Block(texts, places, source.consumed)
        position += used
        if not at_end:
            # Of the same size always, whatever came before: so a document comes in parts in every run, or in none.
            kept = buffers.take(size if len(rest) < size else min(len(rest) + _GROWTH, reading.longest))
            buffer = kept.data
            buffer[: len(rest)] = rest
            filled = len(rest)
    if failure is not None:
        block = _fault(given, given.where(number + 1), failure)
        if partial:
            block.part = b""
        yield block


# --- Parquet and Arrow ---


def carried_schema(inputs: Sequence[Input], columns: Sequence[str]) -> Any:
    """A ``pyarrow.Schema`` of the columns that all inputs carry along; None where there are none.

    Raises InputError, which names a file and a column, where that is of another type than in the files before. Fields
    of JSON Lines are strings. What cannot be read, or has not all columns, is a fault when it comes to be read.
    """
    if not columns:
        return None
    pyarrow = library("pyarrow", "arrow", "carrying columns")
    first: dict[str, tuple[Any, Input]] = {}
    for given in inputs:
        types = dict.fromkeys(columns, pyarrow.string())
        if given.format in ("parquet", "arrow"):
            try:
                found = _schema_of(pyarrow, given)
                types = {name: found.field(name).type for name in columns if name in found.names}
            except (*READ_ERRORS, pyarrow.ArrowException, TypeError, ValueError, KeyError):
                continue
        for name, kind in types.items():
            known, earlier = first.setdefault(name, (kind, given))
            if kind != known:
                raise InputError(
                    f"{given.shown}: the column {name!r} is of {kind}, but of {known} in {earlier.shown}, and can be "
                    "carried along from both only if it is of one type; cast one, or leave the column out"
                )
    # Whether a file says that a column has no nulls, and what else it says about it, is not what is carried along.
    return pyarrow.schema([(name, first[name][0]) for name in columns if name in first])


def _schema_of(pyarrow: Any, given: Input) -> Any:
    if given.format == "parquet":
        return import_module("pyarrow.parquet").read_schema(given.path)
    with _arrow_file(pyarrow, given) as (_, file):
        return file.schema


def _columnar(given: Input, reading: Reading, start: Place) -> Iterator[Block]:
    """The rows of a Parquet or Arrow file."""
    pyarrow = library("pyarrow", "arrow", f"reading {given.format} files")
    carries = [] if reading.carried is None else reading.carried.names
    wanted = [reading.field, *(name for name in carries if name != reading.field)]
    row = start.position
    if given.path == "-":
        raise InputError(f"standard input cannot be a {given.format} file, which is read in any order; name a file")
    try:
        batches = (_parquet if given.format == "parquet" else _arrow)(pyarrow, given, wanted, reading.block_bytes, row)
        for share, batch in batches:
            column = column_of(batch.column(reading.field))
            assert column is not None  # it is an Arrow array
            rows = row + np.arange(len(column))
            places = _places(start.input, rows + 1, row)
            carried = pyarrow.table(batch).select(carries).cast(reading.carried) if carries else None
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
        # Somewhat fewer than a block has room for if all are alike: what is a little more than one would become two.
        rows = max(1, min(_MOST_ROWS, size * total // max(weight + weight // 8, 1)))
        groups = list(range(group, metadata.num_row_groups))
        for batch in file.iter_batches(rows, row_groups=groups, columns=wanted, use_threads=False):
            behind = before + len(batch)
            if behind > row:
                yield behind / total, batch.slice(max(row - before, 0))
            before = behind


@contextmanager
def _arrow_file(pyarrow: Any, given: Input) -> Iterator[tuple[Any, Any]]:
    """(file, reader) of an Arrow file, which Feather files are, or of a stream."""
    with pyarrow.OSFile(given.path) as raw:
        try:
            reader = pyarrow.ipc.open_file(raw)
        except pyarrow.ArrowInvalid:
            raw.seek(0)
            reader = pyarrow.ipc.open_stream(raw)
        yield raw, reader


def _arrow(pyarrow: Any, given: Input, wanted: list[str], size: int, row: int) -> Iterator[tuple[float, Any]]:
    """The same of an Arrow file."""
    with _arrow_file(pyarrow, given) as (raw, file):
        _check_columns(file.schema.names, wanted)
        count = getattr(file, "num_record_batches", None)
        batches = file if count is None else map(file.get_batch, range(count))
        before = 0
        for number, batch in enumerate(batches):
            if before + len(batch) > row:
                share = raw.tell() / max(given.size or 0, 1) if count is None else (number + 1) / count
                yield share, batch.select(wanted).slice(max(row - before, 0))
            before += len(batch)

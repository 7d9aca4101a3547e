"""Writers: ids to the files of one shard, which get their names when they are whole."""

import os
import struct
import zlib
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from numbatok.batch import TokenBatch
from numbatok.calls import AnyIds
from numbatok.npy import npy_header
from numbatok.rows import library

OutputFormat = Literal["bin", "npy", "megatron", "parquet", "arrow"]
FORMATS: tuple[OutputFormat, ...] = ("bin", "npy", "megatron", "parquet", "arrow")

#: What the name of a file has until it is whole.
PARTIAL = ".partial"

_GROUP_IDS = 1 << 22  # a row group ends with the document that brings it to so many ids
_GROUP_ROWS = 1 << 20
_SYNC_BYTES = 1 << 23  # go to the disk while the next are encoded: at the end there is little to wait for
_MOST_SYNCS = 4  # times as many wait for a disk that is slower, before what writes waits for it, too


def crc_of(path: Path) -> int:
    """The CRC-32 of a file."""
    crc = 0
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            crc = zlib.crc32(block, crc)
    return crc


def shown_crc(crc: int) -> str:
    """As manifests have it."""
    return f"{crc:08x}"


def _to_disk(descriptor: int, begin: int, end: int) -> None:
    """Have a part of a file on the disk, and no more in the system's cache.

    There it would displace what is in use; and its pages are used for what comes next, where fresh ones cost a tenth of
    a run's time.
    """
    getattr(os, "fdatasync", os.fsync)(descriptor)
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, begin, end - begin, os.POSIX_FADV_DONTNEED)


class File:
    """A file whose CRC-32 is made as it is written, and that gets its name at the end.

    SHA-256 would take three times as long where the processor has instructions for it, 8 % of a run's time, and where
    not, ten times.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._partial = path.with_name(path.name + PARTIAL)
        self._file = open(self._partial, "wb", buffering=0)  # noqa: SIM115
        self._crc = 0
        self.size = self._synced = 0
        self._is_sent = False  # whether nothing has been changed since
        self._crew: ThreadPoolExecutor | None = None  # one thread, which waits for the disk
        self._sending: Future[None] | None = None
        self.closed = False

    def write(self, data: Any) -> int:
        """Write all of some bytes."""
        view = memoryview(data).cast("B")
        done = 0
        try:
            while done < len(view):
                done += self._file.write(view[done:]) or 0
        except OSError as error:
            error.filename = str(self.path)
            raise
        self._crc = zlib.crc32(view, self._crc)
        self.size += len(view)
        self._is_sent = False
        waiting = self.size - self._synced
        is_idle = self._sending is None or self._sending.done()
        if waiting >= _SYNC_BYTES * (1 if is_idle else _MOST_SYNCS):
            self.send()
        return len(view)

    def send(self) -> None:
        """Let another thread have on the disk what has been written, once what was sent before is there."""
        if self._crew is None:
            self._crew = ThreadPoolExecutor(1, "numbatok writer")
        self._sent()
        self._sending = self._crew.submit(_to_disk, self._file.fileno(), self._synced, self.size)
        self._synced = self.size
        self._is_sent = True

    def _sent(self) -> None:
        """Wait for what was sent; OSError where the disk did not take it."""
        sending, self._sending = self._sending, None
        if sending is not None:
            try:
                sending.result()
            except OSError as error:
                error.filename = str(self.path)
                raise

    def _end_sending(self) -> None:
        if self._crew is not None:
            self._crew.shutdown()
        self._crew = None

    def mark(self) -> tuple[int, int]:
        """Where the file stands, to go :meth:`back` to."""
        return self.size, self._crc

    def back(self, mark: tuple[int, int]) -> None:
        """Take back what was written since."""
        self._sent()
        self.size, self._crc = mark
        self._synced = min(self._synced, self.size)
        self._is_sent = False
        self._file.truncate(self.size)
        self._file.seek(self.size)

    def begin_with(self, header: bytes) -> None:
        """Write over the file's beginning."""
        self._file.seek(0)
        self._file.write(header)
        self._crc = crc_of(self._partial)
        self._is_sent = False

    # What pyarrow asks of a file that it writes to.

    def tell(self) -> int:
        """Bytes written."""
        return self.size

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """The file is closed by :meth:`finish`."""

    def finish(self) -> dict[str, Any]:
        """Give the file its name, once it is on the disk; return its entry in the manifest."""
        if not self._is_sent:
            self.send()
        self._sent()
        self._end_sending()
        self._file.close()
        os.replace(self._partial, self.path)
        return {"name": self.path.name, "bytes": self.size, "crc32": shown_crc(self._crc)}

    def discard(self) -> None:
        """Remove what has been written."""
        self._end_sending()  # before another file has its descriptor
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            os.unlink(self._partial)


class Shard(Protocol):
    """Files of one shard that is being written."""

    def write(self, batch: TokenBatch, carried: Any) -> None:
        """Add documents, and a table of what goes with them."""

    def write_part(self, ids: AnyIds) -> None:
        """Add ids of a document that comes in parts."""

    def end_document(self, keep: bool) -> None:
        """End the document that came in parts, or take it back."""

    def finish(self) -> list[dict[str, Any]]:
        """Give the files their names; return their entries in the manifest."""

    def discard(self) -> None:
        """Remove the files."""


class FlatShard:
    """Flat ids, and where documents begin: ``.bin`` or ``.npy`` with offsets, or the pair that Megatron-LM maps.

    The offsets of ``.bin`` and ``.npy`` are int64[documents + 1] in a file ``.offsets.npy`` beside it.
    """

    def __init__(self, folder: Path, name: str, dtype: np.dtype[Any], kind: OutputFormat) -> None:
        self._ids = File(folder / f"{name}.{'npy' if kind == 'npy' else 'bin'}")
        self._beside = folder / f"{name}.{'idx' if kind == 'megatron' else 'offsets.npy'}"
        self._dtype, self._kind = dtype, kind
        self._lengths: list[npt.NDArray[np.int64]] = []
        self._part = 0
        self._mark: tuple[int, int] | None = None
        if kind == "npy":
            self._ids.write(npy_header(dtype.str, 0))

    def write(self, batch: TokenBatch, carried: Any) -> None:
        """Add documents."""
        self._ids.write(batch.ids.astype(self._dtype, copy=False).data)
        self._lengths.append(batch.lengths)

    def write_part(self, ids: AnyIds) -> None:
        """Add ids of a document that comes in parts."""
        if self._mark is None:
            self._mark = self._ids.mark()
        self._ids.write(ids.astype(self._dtype).data)
        self._part += len(ids)

    def end_document(self, keep: bool) -> None:
        """End the document that came in parts, or take it back."""
        if keep:
            self._lengths.append(np.array([self._part], np.int64))
        elif self._mark is not None:
            self._ids.back(self._mark)
        self._part, self._mark = 0, None

    def finish(self) -> list[dict[str, Any]]:
        """Write what goes beside the ids, and give both files their names."""
        lengths = np.concatenate([np.empty(0, np.int64), *self._lengths])
        offsets = np.append(np.zeros(1, np.int64), np.cumsum(lengths))
        if self._kind == "npy":
            self._ids.begin_with(npy_header(self._dtype.str, int(offsets[-1])))
        self._lengths = []
        self._ids.send()  # while what goes beside them is made: one after the other they took 3 % of a short run
        beside = File(self._beside)
        try:
            if self._kind == "megatron":
                beside.write(_megatron_index(lengths, offsets, self._dtype))
            else:
                beside.write(npy_header("<i8", len(offsets)))
                beside.write(offsets.astype("<i8", copy=False).data)
            beside.send()
            return [self._ids.finish(), beside.finish()]
        except BaseException:
            beside.discard()
            raise

    def discard(self) -> None:
        """Remove the files."""
        self._ids.discard()


MEGATRON_MAGIC = b"MMIDIDX\x00\x00"
MEGATRON_CODES = {np.dtype("<u2"): 8, np.dtype("<u4"): 4}  # it has int32, of the same bytes, and no uint32


def _megatron_index(lengths: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64], dtype: np.dtype[Any]) -> bytes:
    """The ``.idx`` file: each document is one sequence. ValueError for one that its int32 lengths do not hold."""
    count = len(lengths)
    if count and lengths.max() > np.iinfo(np.int32).max:
        raise ValueError(
            f"a document has {lengths.max()} ids, and Megatron-LM's index holds lengths below 2^31 only: "
            "take another output_format, or cut the document"
        )
    return b"".join(
        [
            MEGATRON_MAGIC,
            struct.pack("<QBQQ", 1, MEGATRON_CODES[dtype], count, count + 1),
            lengths.astype("<i4").tobytes(),
            (offsets[:-1] * dtype.itemsize).astype("<i8").tobytes(),
            np.arange(count + 1, dtype="<i8").tobytes(),
        ]
    )


class TableShard:
    """A Parquet or Arrow file with a column ``ids``, and the columns that are carried along.

    Row groups end where the documents say it, not where batches do, so the same documents make the same file.
    """

    def __init__(self, folder: Path, name: str, dtype: np.dtype[Any], kind: OutputFormat) -> None:
        self._pyarrow = library("pyarrow", "arrow", f"writing {kind} files")
        self._file = File(folder / f"{name}.{kind}")
        self._dtype, self._kind = dtype, kind
        self._writer: Any = None
        self._waiting: list[Any] = []
        self._ids = self._rows = 0
        self._parts: list[AnyIds] = []

    def write(self, batch: TokenBatch, carried: Any) -> None:
        """Add documents, and a table of what goes with them."""
        ids = TokenBatch(batch.ids.astype(self._dtype, copy=False), batch.offsets, validity=batch.validity).to_arrow()
        ids = ids.cast(self._pyarrow.list_(self._pyarrow.from_numpy_dtype(self._dtype)))
        table = self._pyarrow.table({"ids": ids})
        for name in carried.column_names if carried is not None else []:
            table = table.append_column(carried.schema.field(name), carried.column(name))
        ends = np.cumsum(batch.lengths)
        done = 0
        while done < len(ends):
            before = int(ends[done - 1]) if done else 0
            stop = int(np.searchsorted(ends, before + _GROUP_IDS - self._ids)) + 1
            stop = min(stop, done + _GROUP_ROWS - self._rows, len(ends))
            part = table.slice(done, stop - done)
            self._waiting.append(part)
            self._rows += len(part)
            self._ids += int(ends[stop - 1]) - before
            if self._ids >= _GROUP_IDS or self._rows >= _GROUP_ROWS:
                self._write_group()
            done = stop

    def write_part(self, ids: AnyIds) -> None:
        """Keep ids of a document that comes in parts."""
        self._parts.append(ids)

    def end_document(self, keep: bool) -> None:
        """Add the document that came in parts, or forget it."""
        if keep:
            ids = np.concatenate([np.empty(0, self._dtype), *self._parts])
            self.write(TokenBatch(ids.astype(self._dtype), np.array([0, len(ids)])), None)
        self._parts = []

    def _write_group(self) -> None:
        if not self._waiting:
            return
        table = self._pyarrow.concat_tables(self._waiting).combine_chunks()
        self._waiting, self._ids, self._rows = [], 0, 0
        if self._writer is None:
            if self._kind == "parquet":
                parquet = library("pyarrow.parquet", "arrow", "writing Parquet files")
                # Ids are no better for a dictionary, which costs a third of the speed.
                carried = [name for name in table.column_names if name != "ids"]
                self._writer = parquet.ParquetWriter(
                    self._file, table.schema, compression="zstd", use_dictionary=carried or False
                )
            else:
                self._writer = self._pyarrow.ipc.new_file(self._file, table.schema)
        if self._kind == "parquet":
            self._writer.write_table(table, row_group_size=len(table))
        else:
            self._writer.write_table(table)

    def finish(self) -> list[dict[str, Any]]:
        """Write the last rows, and give the file its name."""
        self._write_group()
        self._writer.close()
        return [self._file.finish()]

    def discard(self) -> None:
        """Remove the file."""
        self._file.discard()
        with suppress(Exception):  # it wants to write the end, which nobody wants
            if self._writer is not None:
                self._writer.close()


def new_shard(folder: Path, number: int, dtype: np.dtype[Any], output_format: OutputFormat) -> Shard:
    """Begin the files of a shard."""
    name = f"tokens-{number:05}"
    if output_format in ("parquet", "arrow"):
        return TableShard(folder, name, dtype, output_format)
    return FlatShard(folder, name, dtype, output_format)

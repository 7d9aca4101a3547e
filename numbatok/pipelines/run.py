"""The run: files to shards of ids, of which reading, encoding and writing go on at once."""

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from numbatok.added_tokens import AllowedSpecial
from numbatok.batch import TokenBatch
from numbatok.calls import AnyIds, id_type_of
from numbatok.pipelines import manifest
from numbatok.pipelines.blocks import INPUT, NUMBER, Block, Fault, InputError
from numbatok.pipelines.ends import end_id, ended
from numbatok.pipelines.inputs import Input, InputFormat, find_inputs
from numbatok.pipelines.overlap import Ahead, Behind
from numbatok.pipelines.readers import Place, Reading, read_all
from numbatok.pipelines.writers import FORMATS, OutputFormat, Shard, new_shard
from numbatok.rows import checked_choice, checked_number
from numbatok.text import Errors, check_errors, raise_invalid
from numbatok.tokenizer import Tokenizer

OnError = Literal["raise", "skip"]

MOST_BLOCK = 16 << 20  # bytes of text that are encoded at once: two workers want some 8 MiB each
LEAST_BLOCK = 1 << 20
FIXED_MEMORY = 512 << 20  # of Python, Numba's compiler and the caches of pretokens, at most
MEMORY_PER_BYTE = 16  # of blocks: texts in three stages, ids in three, and what a call has besides
NAMED_FAULTS = 100  # that the manifest and the report list; all are counted
_PART = 1 << 20  # bytes of a document in parts that are encoded at once


@dataclass(frozen=True)
class Report:
    """What a run has done.

    Attributes
    ----------
    path : the folder with the shards and ``manifest.json``
    documents, tokens, bytes : of all shards; bytes of the texts as UTF-8
    nulls : documents among them that were null
    faults : how many files, lines, rows or documents could not be encoded and were left out
    named_faults : the first of them
    shards : how many there are
    seconds : that this call took
    encoded_bytes : of the texts that this call encoded: fewer where it went on with a run that was broken off
    """

    path: Path
    documents: int
    tokens: int
    bytes: int
    nulls: int
    faults: int
    named_faults: list[Fault] = field(repr=False)
    shards: int
    seconds: float
    encoded_bytes: int

    @property
    def megabytes_per_second(self) -> float:
        """Text that this call encoded, in 10^6 bytes a second."""
        return self.encoded_bytes / 1e6 / max(self.seconds, 1e-9)

    def __str__(self) -> str:
        left_out = f", {self.faults:,} bad left out" if self.faults else ""
        return (
            f"{self.path}: {self.documents:,} documents, {self.tokens:,} tokens, {self.bytes:,} bytes of text in "
            f"{self.shards:,} shards{left_out}; {self.seconds:.1f} s, {self.megabytes_per_second:.1f} MB/s"
        )


def encode_files(
    tokenizer: Tokenizer,
    inputs: "str | os.PathLike[str] | Iterable[str | os.PathLike[str]]",
    output: "str | os.PathLike[str]",
    *,
    input_format: InputFormat | None = None,
    separator: str | bytes | None = None,
    field: str = "text",
    output_format: OutputFormat = "bin",
    columns: Sequence[str] = (),
    dtype: npt.DTypeLike | None = None,
    append_eos: bool | str | int = False,
    shard_size: int = 1 << 29,
    memory: int = 1 << 30,
    on_error: OnError = "raise",
    errors: Errors = "strict",
    add_special_tokens: bool = True,
    allowed_special: AllowedSpecial = "all",
    disallowed_special: AllowedSpecial = (),
    num_threads: int | None = None,
    progress: bool | None = None,
    overwrite: bool = False,
) -> Report:
    """Encode files into a folder of shards, in bounded memory; what is broken off goes on where it was.

    Files get their names when they are whole. The same call again goes on behind the last whole shard, and the result
    is the same, byte by byte; after the end it does nothing. ``numbatok.open_tokens(output)`` reads it.

    Parameters
    ----------
    inputs : files, directories, of which all files are read, patterns as :mod:`glob` has them, and ``"-"`` for standard
        input. What is compressed by gzip, bzip2, xz or Zstandard (by pyarrow) is decompressed as it is read.
    output : the folder, which is made if need be
    input_format : ``"text"``, ``"jsonl"``, ``"parquet"`` or ``"arrow"`` (Feather too); by default what each file's name
        ends with, ``.jsonl``, ``.ndjson``, ``.parquet``, ``.pq``, ``.arrow``, ``.feather`` or ``.ipc``, and else text
    separator : what stands between the documents of a text file: ``"\\n"`` for one on each line; None: it is one
    field : the field of JSON Lines, or the column, that holds the text; null there is a document without any ids
    output_format : ``"bin"``, flat ids, and ``"npy"``, the same as a NumPy file, both with an ``.offsets.npy`` beside
        them, int64[documents + 1]; ``"megatron"``, the pair ``.bin`` and ``.idx`` of Megatron-LM; ``"parquet"`` or
        ``"arrow"``, a column ``ids`` of lists
    columns : fields or columns that Parquet and Arrow output carry along. Those of JSON Lines become strings: what is
        no string, as JSON.
    dtype : of the ids, uint16 or uint32; by default uint32 in Parquet and Arrow, and else what the vocabulary needs
    append_eos : whether to put an id after each document: the special token by its name or id, or True for the
        tokenizer's own, where its name tells it
    shard_size : bytes of ids; a shard ends with the document that brings it to so many
    memory : bytes that the process may take, 640 MiB or more. What has to be held whole, a line of JSON or a value of a
        column, comes on top where it is larger than a block, a sixteenth of what is over 512 MiB.
    on_error : what to do about a file that can't be read, text that is not UTF-8, a broken line: ``"raise"``
        InputError, or ``"skip"``, which names it in the log and counts it
    errors, add_special_tokens, allowed_special, disallowed_special, num_threads : as ``Tokenizer.encode_batch`` has
        them
    progress : whether to show a bar, if tqdm is installed; by default where standard error is a terminal
    overwrite : whether to begin anew where the folder holds the output of another run

    Raises InputError, naming file and line or row; FileNotFoundError for an input that is not there; ValueError where
    the folder holds the output of another run; OSError where nothing can be written.

    >>> encode_files(tokenizer, "corpus/", "tokens", separator="\\n", append_eos=True, on_error="skip")
    """
    started = time.perf_counter()
    if not isinstance(tokenizer, Tokenizer):
        raise TypeError(f"tokenizer must be a numbatok.Tokenizer, not {type(tokenizer).__name__}")
    checked_choice("output_format", output_format, FORMATS)
    if input_format is not None:
        checked_choice("input_format", input_format, ("text", "jsonl", "parquet", "arrow"))
    checked_choice("on_error", on_error, ("raise", "skip"))
    check_errors(errors)
    shard_size = checked_number("shard_size", shard_size, 1)
    if isinstance(columns, str):
        raise TypeError(f"columns must be a sequence of names, not one str; pass [{columns!r}]")
    is_table = output_format in ("parquet", "arrow")
    if columns and not is_table:
        raise ValueError(f"output_format={output_format!r} has no place for columns; parquet and arrow have")
    if "ids" in columns:
        raise ValueError("a column 'ids' cannot be carried along: that is the name of the column of ids")
    if dtype is None and not is_table and tokenizer.vocab_size <= 1 << 16:
        dtype = np.uint16
    id_type = np.dtype(id_type_of(dtype, None, tokenizer.vocab_size)).newbyteorder("<")
    end = end_id(tokenizer, append_eos)
    between = separator.encode() if isinstance(separator, str) else separator
    if between is not None and not between:
        raise ValueError("separator must not be empty; None makes each file one document")
    found = find_inputs(inputs, input_format, between, output)
    if columns and any(given.format == "text" for given in found):
        name = next(given.shown for given in found if given.format == "text")
        raise ValueError(f"{name}: text has no columns to carry along")
    block_bytes = _block_bytes(memory)
    engine = tokenizer._start()
    policy = allowed_special, disallowed_special
    tokenizer._actions(engine, *policy, errors)  # to refuse what is no special token
    in_parts = engine.regex_rule is None and engine.stream_ends(bool(add_special_tokens)) is not None
    head = {
        "format": "numbatok tokens",
        "version": 1,
        "numbatok": import_module("numbatok").__version__,
        "tokenizer": {
            "name": tokenizer.name,
            "sha256": manifest.digest_of(tokenizer._content()),
            "vocab_size": tokenizer.vocab_size,
        },
        "settings": {
            "output_format": output_format,
            "dtype": id_type.name,
            "append_eos": end,
            "shard_size": shard_size,
            "input_format": input_format,
            "separator": None if between is None else between.decode("utf-8", "backslashreplace"),
            "field": field,
            "columns": list(columns),
            "on_error": on_error,
            "errors": errors,
            "add_special_tokens": bool(add_special_tokens),
            "allowed_special": allowed_special if isinstance(allowed_special, str) else sorted(allowed_special),
            "disallowed_special": (
                disallowed_special if isinstance(disallowed_special, str) else sorted(disallowed_special)
            ),
        },
        "inputs": [{"path": given.path, "bytes": given.size} for given in found],
    }
    reading = Reading(between, field, tuple(columns), errors, block_bytes, in_parts)
    options = {
        "errors": errors,
        "add_special_tokens": add_special_tokens,
        "allowed_special": allowed_special,
        "disallowed_special": disallowed_special,
    }
    encoder = _Encoder(tokenizer, found, options, id_type, end, num_threads, on_error == "raise")
    with _folder(Path(output), found) as folder:
        sink = _Sink(folder, head, id_type, output_format, shard_size, overwrite)
        if not sink.finished:
            before = sink.totals["bytes"]
            try:
                blocks = read_all(found, reading, sink.place, on_error == "raise")
                with _Bar(found, progress, sink) as bar, Ahead(blocks) as ahead, Behind(sink.add) as behind:
                    for block in ahead:
                        behind.put(encoder.encode(block))
                        bar.show(block.consumed)
                        del block  # its text goes while the next one is waited for
                sink.finish()
            except BaseException:
                sink.discard()
                raise
            encoded = sink.totals["bytes"] - before
        else:
            encoded = 0
        return sink.report(time.perf_counter() - started, encoded)


def _block_bytes(memory: int) -> int:
    """Bytes of text in a block, so that all stages together stay within ``memory``."""
    least = FIXED_MEMORY + 8 * LEAST_BLOCK * MEMORY_PER_BYTE
    memory = checked_number("memory", memory, least)
    return min(MOST_BLOCK, (memory - FIXED_MEMORY) // MEMORY_PER_BYTE)


@contextmanager
def _folder(path: Path, inputs: Sequence[Input]) -> Iterator[Path]:
    """The folder for the output, locked against other runs where the system can do that."""
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(
            20, "the output must be a folder, which gets the shards, and this is a file", str(path)
        )
    path.mkdir(parents=True, exist_ok=True)
    place = os.path.realpath(path)
    for given in inputs:
        if given.path != "-" and os.path.dirname(os.path.realpath(given.path)) == place:
            raise ValueError(f"{given.path}: is to be read, and is in the folder for the output; name another folder")
    if sys.platform == "win32":
        yield path
        return
    import fcntl

    handle = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"{path}: another run is writing there") from None
        except OSError:  # a file system without locks
            pass
        yield path
    finally:
        os.close(handle)


class _Bar:
    """A bar of the input that is read, where it is wanted and tqdm is installed."""

    def __init__(self, inputs: Sequence[Input], wanted: bool | None, sink: "_Sink") -> None:
        self._bar: Any = None
        self._sink = sink
        self._done = 0
        if wanted is None:
            wanted = sys.stderr is not None and sys.stderr.isatty()
        if not wanted:
            return
        with suppress(ImportError):
            total = sum(given.size or 0 for given in inputs)
            bar = import_module("tqdm").tqdm
            self._bar = bar(total=total or None, unit="B", unit_scale=True, smoothing=0.05, file=sys.stderr)

    def __enter__(self) -> "_Bar":
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def show(self, consumed: int) -> None:
        """Say how many bytes of the inputs have been read and encoded."""
        if self._bar is not None:
            faults = self._sink.totals["faults"]
            self._bar.set_postfix_str(
                f"{self._sink.totals['tokens']:,} tokens{f', {faults:,} bad' if faults else ''}", refresh=False
            )
            self._bar.update(max(0, consumed - self._done))
            self._done = max(consumed, self._done)


# --- encoding ---


@dataclass
class _Encoded:
    """A block, and the ids of its documents; or the ids that a part of one gave, and its bytes so far."""

    block: Block
    batch: TokenBatch
    part_bytes: int = 0


class _Encoder:
    """Blocks to ids."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        inputs: Sequence[Input],
        options: dict[str, Any],
        id_type: np.dtype[Any],
        end: int | None,
        num_threads: int | None,
        stop_at_fault: bool,
    ) -> None:
        self._tokenizer, self._inputs, self._options, self._end = tokenizer, inputs, options, end
        self._id_type, self._threads, self._stop_at_fault = id_type, num_threads, stop_at_fault
        self._stream: Any = None  # of the document that comes in parts
        self._broken = ""  # why it cannot be encoded
        self._part_bytes = 0

    def encode(self, block: Block) -> _Encoded:
        """The ids of a block. Documents that cannot be encoded become faults, or InputError."""
        if block.part is not None:
            return self._encode_part(block, block.part)
        bad: dict[int, Fault] = {}
        if self._options["errors"] == "strict":
            for number in block.texts.invalid():
                if block.texts.valid is None or block.texts.valid[number]:
                    bad[number] = self._fault(block, number, _not_utf8(block.texts[number]))
        block = block.without(bad)
        try:
            batch = self._batch(block)
        except ValueError:
            block = block.without(self._refused(block))
            batch = self._batch(block)
        return _Encoded(block, batch)

    def _batch(self, block: Block) -> TokenBatch:
        dtype = np.uint32 if self._end is not None else self._id_type
        batch = self._tokenizer.encode_batch(
            block.texts,
            dtype=dtype,
            num_threads=self._threads,
            **self._options,
        )
        return batch if self._end is None else ended(batch, self._end)

    def _refused(self, block: Block) -> dict[int, Fault]:
        """The documents of a block that the tokenizer refuses, by one at a time."""
        bad = {}
        for number in range(len(block)):
            try:
                self._tokenizer.count_batch(block.texts.take(np.array([number])), **self._options)
            except ValueError as error:
                bad[number] = self._fault(block, number, _first_sentence(error))
        if not bad:
            raise AssertionError("a block was refused, but none of its documents")
        return bad

    def _fault(self, block: Block, number: int, reason: str) -> Fault:
        given = self._inputs[int(block.places[number, INPUT])]
        fault = Fault(given.shown, given.where(int(block.places[number, NUMBER])), reason)
        if self._stop_at_fault:
            raise InputError(str(fault))
        return fault

    def _encode_part(self, block: Block, part: bytes) -> _Encoded:
        """The ids that a part of a document decides; a fault with the last part means that there is no document."""
        if self._stream is None:
            self._stream, self._broken, self._part_bytes = self._tokenizer.stream_encoder(**self._options), "", 0
        ids: list[AnyIds] = [np.empty(0, np.uint32)]
        try:
            if not self._broken and not block.faults:
                ids += [self._stream.feed(part[begin : begin + _PART]) for begin in range(0, len(part), _PART)]
                self._part_bytes += len(part)
                if not block.more:
                    ids.append(self._stream.finish())
        except ValueError as error:
            self._broken = "not UTF-8" if isinstance(error, UnicodeError) else _first_sentence(error)
        faults = list(block.faults)
        if self._broken and not faults and (self._stop_at_fault or not block.more):
            faults.append((0, self._fault(block, 0, self._broken)))
        if not block.more:
            self._stream = None
            if self._end is not None:
                ids.append(np.array([self._end], np.uint32))
        return _Encoded(replace(block, part=b"", faults=faults), _one(np.concatenate(ids)), self._part_bytes)


def _one(ids: npt.NDArray[np.uint32]) -> TokenBatch:
    return TokenBatch(ids, np.array([0, len(ids)]))


def _not_utf8(data: bytes) -> str:
    try:
        raise_invalid(np.frombuffer(data, np.uint8))
    except UnicodeDecodeError as error:
        return f"not UTF-8 at byte {error.start} of the text"
    raise AssertionError("text was not UTF-8 and now is")


def _first_sentence(error: Exception) -> str:
    return str(error).partition(" of the text at index")[0].partition(". ")[0]


# --- writing ---


class _Sink:
    """Encoded blocks to shards, with the account of what is in them."""

    def __init__(
        self,
        folder: Path,
        head: dict[str, Any],
        id_type: np.dtype[Any],
        output_format: OutputFormat,
        shard_size: int,
        overwrite: bool,
    ) -> None:
        self._folder, self._head, self._id_type = folder, head, id_type
        self._format, self._shard_size = output_format, shard_size
        self._shard: Shard | None = None
        self._in_shard = {"documents": 0, "tokens": 0, "bytes": 0, "nulls": 0}
        self._part_tokens = 0
        self._shards: list[dict[str, Any]] = []
        self.totals = {"documents": 0, "tokens": 0, "bytes": 0, "nulls": 0, "faults": 0}
        self._faults: list[Fault] = []
        self.place = Place()
        self.finished = False
        self._take_up(overwrite)

    def _take_up(self, overwrite: bool) -> None:
        """Stand where an earlier run of the same kind has come to, or at the beginning."""
        folder = self._folder
        if overwrite:
            for name in (manifest.NAME, manifest.UNFINISHED):
                (folder / name).unlink(missing_ok=True)
            manifest.remove_partial(folder, set())
        found = manifest.read(folder, manifest.NAME) or manifest.read(folder, manifest.UNFINISHED)
        if found is None:
            strangers = manifest.shard_files(folder)
            if strangers:
                raise ValueError(
                    f"{strangers[0]}: is in the way, and no manifest lists it; name another folder, or pass "
                    "overwrite=True to remove such files"
                )
            self._save()
            return
        manifest.compare(folder, found, self._head)
        self._shards = found["shards"]
        self.totals = {name: found[name] for name in self.totals}
        self._faults = [Fault(*fault) for fault in found["named_faults"]]
        self.finished = "resume" not in found
        manifest.remove_partial(folder, {file["name"] for shard in self._shards for file in shard["files"]})
        if self.finished:
            (folder / manifest.UNFINISHED).unlink(missing_ok=True)
        else:
            self.place = Place(*found["resume"])

    def _content(self) -> dict[str, Any]:
        return {**self._head, **self.totals, "named_faults": self._faults, "shards": self._shards}

    def _save(self) -> None:
        manifest.write(self._folder, manifest.UNFINISHED, {**self._content(), "resume": self.place})

    def add(self, encoded: _Encoded) -> None:
        """Write a block's ids."""
        block, batch = encoded.block, encoded.batch
        if block.part is not None:
            self._add_part(block, batch, encoded.part_bytes)
            return
        ends = np.cumsum(batch.lengths) * self._id_type.itemsize
        done = 0
        while done < len(batch):
            before = int(ends[done - 1]) if done else 0
            room = self._shard_size - self._in_shard["tokens"] * self._id_type.itemsize
            stop = min(int(np.searchsorted(ends, before + room)) + 1, len(batch))
            carried = None if block.carried is None else block.carried.slice(done, stop - done)
            documents = batch[done:stop]
            self._open().write(documents, carried)
            nulls = 0 if documents.validity is None else int((~documents.validity).sum())
            for fault in (fault for at, fault in block.faults if done <= at < stop):
                self._note(fault)
            size = int(block.texts.lengths[done:stop].sum())
            self._count(stop - done, len(documents.ids), size, nulls, block.places[stop - 1])
            done = stop
        for fault in (fault for at, fault in block.faults if at >= len(batch)):
            self._note(fault)

    def _add_part(self, block: Block, batch: TokenBatch, size: int) -> None:
        self._open().write_part(batch.ids)
        self._part_tokens += len(batch.ids)
        if block.more:
            return
        self._open().end_document(keep=not block.faults)
        for _, fault in block.faults:
            self._note(fault)
        if not block.faults:
            self._count(1, self._part_tokens, size, 0, block.places[0])
        self._part_tokens = 0

    def _open(self) -> Shard:
        if self._shard is None:
            self._shard = new_shard(self._folder, len(self._shards), self._id_type, self._format)
        return self._shard

    def _note(self, fault: Fault) -> None:
        """Count a fault, and name it in the log."""
        from numbatok.notices import log

        log.warning("left out: %s", fault)
        self.totals["faults"] += 1
        if len(self._faults) < NAMED_FAULTS:
            self._faults.append(fault)

    def _count(self, documents: int, tokens: int, size: int, nulls: int, place: npt.NDArray[np.int64]) -> None:
        """Enter documents into the account, and end the shard if it is large enough."""
        for name, count in (("documents", documents), ("tokens", tokens), ("bytes", size), ("nulls", nulls)):
            self.totals[name] += count
            self._in_shard[name] += count
        self.place = Place(*place.tolist())
        if self._in_shard["tokens"] * self._id_type.itemsize >= self._shard_size:
            self._end_shard()

    def _end_shard(self) -> None:
        assert self._shard is not None
        files = self._shard.finish()
        self._shard = None
        self._shards.append({**self._in_shard, "files": files})
        self._in_shard = dict.fromkeys(self._in_shard, 0)
        self._save()

    def finish(self) -> None:
        """End the last shard, and give the manifest its name."""
        if self._shard is not None:
            if self._in_shard["documents"]:
                self._end_shard()
            else:  # begun by a document that turned out to be bad
                self._shard.discard()
                self._shard = None
        manifest.write(self._folder, manifest.NAME, self._content())
        (self._folder / manifest.UNFINISHED).unlink(missing_ok=True)

    def discard(self) -> None:
        """Remove what is not whole; the whole shards stay, for a run that goes on."""
        if self._shard is not None:
            self._shard.discard()

    def report(self, seconds: float, encoded_bytes: int) -> Report:
        """What there is now."""
        return Report(
            self._folder,
            **self.totals,
            named_faults=self._faults,
            shards=len(self._shards),
            seconds=seconds,
            encoded_bytes=encoded_bytes,
        )

"""The run: files to shards of ids, in blocks that several threads read, encode and write."""

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from numbatok.added_tokens import AllowedSpecial
from numbatok.calls import id_type_of
from numbatok.pipelines import manifest
from numbatok.pipelines.encoder import Encoded, Encoder
from numbatok.pipelines.ends import end_id
from numbatok.pipelines.inputs import Input, InputFormat, find_inputs
from numbatok.pipelines.overlap import SPARE, Crew
from numbatok.pipelines.readers import Reading, carried_schema, read_all
from numbatok.pipelines.sink import Report, Sink
from numbatok.pipelines.writers import FORMATS, OutputFormat
from numbatok.rows import checked_choice, checked_number, library
from numbatok.text import Errors, check_errors
from numbatok.threads import threads_of
from numbatok.tokenizer import Tokenizer

OnError = Literal["raise", "skip"]

DEFAULT_MEMORY = 1 << 30
LEAST_MEMORY = 640 << 20
FIXED_MEMORY = 256 << 20  # of Python, Numba's compiler and pyarrow, at most
MOST_BLOCK = 3 << 20  # bytes of text that a thread encodes at once: 2 MiB take 7 % longer of Parquet, of text as long
LEAST_BLOCK = 1 << 20
MOST_EXPECTED = 1 << 28  # bytes of text for which each thread's cache begins large enough
BLOCKS_BESIDES = SPARE + 1  # besides one for each thread: those that wait to be written, and what is read ahead
MOST_SEPARATOR = 1 << 12  # bytes
MEMORY_PER_BYTE = 8  # of a block: its text, what JSON makes of it, and its ids, a byte each at the worst


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
    memory: int | None = None,
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
    is the same, byte by byte (but with dropout); after the end it does nothing. ``numbatok.open_tokens(output)`` reads
    it.

    Parameters
    ----------
    inputs : files, directories, of which all files are read, patterns as :mod:`glob` has them, and ``"-"`` for standard
        input. What is compressed by gzip, bzip2, xz or Zstandard (by pyarrow) is decompressed as it is read.
    output : the folder, which is made if need be
    input_format : ``"text"``, ``"jsonl"``, ``"parquet"`` or ``"arrow"`` (Feather too); by default what each file's name
        ends with, ``.jsonl``, ``.ndjson``, ``.parquet``, ``.pq``, ``.arrow``, ``.feather`` or ``.ipc``, and else text
    separator : what stands between the documents of a text file: ``"\\n"`` for one on each line, ``"\\r\\n"`` where
        lines end so; None: it is one
    field : the field of JSON Lines, or the column, that holds the text; null there is a document without any ids
    output_format : ``"bin"``, flat ids, and ``"npy"``, the same as a NumPy file, both with an ``.offsets.npy`` beside
        them, int64[documents + 1]; ``"megatron"``, the pair ``.bin`` and ``.idx`` of Megatron-LM; ``"parquet"`` or
        ``"arrow"``, a column ``ids`` of lists
    columns : fields or columns that Parquet and Arrow output carry along. Those of JSON Lines become strings: what is
        no string, as the JSON that it is.
    dtype : of the ids, uint16 or uint32; by default uint32 in Parquet and Arrow, and else what the vocabulary needs
    append_eos : whether to put an id after each document: the special token by its name or id, or True for the
        tokenizer's own, where its name tells it
    shard_size : bytes of ids; a shard ends with the document that brings it to so many
    memory : bytes that the process may take, 640 MiB or more; by default 1 GiB, or what all threads want where that is
        more, some 56 MiB each. With less fewer encode. A line of JSON is held whole, and a document of text where the
        tokenizer's rule or template is not one for parts: one of more bytes than there is room for, 12 MiB of 1 GiB
        where two threads encode, is a fault. A value of a column that is larger than a block, of 1 to 3 MiB, comes on
        top.
    on_error : what to do about a file that can't be read, text that is not UTF-8, a broken line: ``"raise"``
        InputError, or ``"skip"``, which names it in the log and counts it
    errors, add_special_tokens, allowed_special, disallowed_special, num_threads : as ``Tokenizer.encode_batch`` has
        them; each thread reads, encodes and writes blocks of its own
    progress : whether to show a bar, if tqdm is installed; by default where standard error is a terminal
    overwrite : whether to begin anew where the folder holds the output of another run

    Raises InputError, naming file and line or row; FileNotFoundError for an input, or a shard written before, that is
    not there; ValueError where the folder holds the output of another run, or a shard is not of the size written;
    OSError where nothing can be written.

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
    if not isinstance(separator, str | bytes | bytearray | None):
        raise TypeError(f"separator must be a str, bytes or None, not {type(separator).__name__}")
    between = separator.encode() if isinstance(separator, str) else separator
    if between is not None and not between:
        raise ValueError("separator must not be empty; None makes each file one document")
    if between is not None and len(between) > MOST_SEPARATOR:
        raise ValueError(f"separator must have at most {MOST_SEPARATOR} bytes, not {len(between)}")
    found = find_inputs(inputs, input_format, between, output)
    if columns and any(given.format == "text" for given in found):
        name = next(given.shown for given in found if given.format == "text")
        raise ValueError(f"{name}: text has no columns to carry along")
    engine = tokenizer._start()
    cache_share = engine.scratches.cache_share
    threads, block_bytes = _within(memory, threads_of(num_threads), cache_share)
    longest = max(block_bytes, _longest(memory, threads, cache_share))
    policy = allowed_special, disallowed_special
    tokenizer._actions(engine, *policy, errors)  # to refuse what is no special token
    in_parts = engine.regex_rule is None and engine.stream_ends(bool(add_special_tokens)) is not None
    head = {
        "format": manifest.FORMAT,
        "version": manifest.VERSION,
        "numbatok": import_module("numbatok").__version__,
        **({"pyarrow": library("pyarrow", "arrow", f"{output_format} output").__version__} if is_table else {}),
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
    reading = Reading(between, field, carried_schema(found, columns), block_bytes, in_parts, longest)
    options = {
        "errors": errors,
        "add_special_tokens": add_special_tokens,
        "allowed_special": allowed_special,
        "disallowed_special": disallowed_special,
    }
    stop_at_fault = on_error == "raise"
    # As of one call over all: half of a text has two thirds of its distinct pretokens.
    expected = min(2 * sum(given.size or 0 for given in found) // max(threads, 2), MOST_EXPECTED)
    encoder = Encoder(
        tokenizer,
        found,
        options,
        id_type,
        end,
        num_threads,
        block_bytes,
        expected,
        stop_at_fault,
        field,
        tuple(columns),
    )
    with _folder(Path(output), found) as folder:
        sink = Sink(folder, head, id_type, output_format, shard_size, overwrite)
        if not sink.finished:
            before = sink.totals["bytes"]
            try:
                blocks = read_all(found, reading, sink.place, stop_at_fault)
                with _Bar(found, progress, sink) as bar:

                    def finish(done: Encoded) -> None:
                        sink.add(done)
                        bar.show(done.block.consumed)

                    Crew(blocks, encoder.prepare, encoder.encode, finish, threads).run()
                sink.finish()
            except BaseException:
                sink.discard()
                raise
            encoded = sink.totals["bytes"] - before
        else:
            encoded = 0
        return sink.report(time.perf_counter() - started, encoded)


def _within(memory: int | None, threads: int, cache_bytes: int) -> tuple[int, int]:
    """(threads, bytes of text in a block), so that all stages together stay within ``memory``.

    ``cache_bytes`` is what the cache of pretokens of one thread may take.
    """
    least = cache_bytes + LEAST_BLOCK * MEMORY_PER_BYTE
    room = _room(memory, threads, cache_bytes)
    threads = max(1, min(threads, (room - BLOCKS_BESIDES * LEAST_BLOCK * MEMORY_PER_BYTE) // least))
    return threads, max(LEAST_BLOCK, min(MOST_BLOCK, _longest(memory, threads, cache_bytes)))


def _room(memory: int | None, threads: int, cache_bytes: int) -> int:
    """Bytes that the caches and all stages may take together."""
    if memory is None:
        most = cache_bytes + MOST_BLOCK * MEMORY_PER_BYTE
        memory = max(DEFAULT_MEMORY, FIXED_MEMORY + threads * most + BLOCKS_BESIDES * MOST_BLOCK * MEMORY_PER_BYTE)
    memory = checked_number("memory", memory, 0)
    if memory < LEAST_MEMORY:
        raise ValueError(f"memory must be at least {LEAST_MEMORY} bytes ({LEAST_MEMORY >> 20} MiB), not {memory}")
    return memory - FIXED_MEMORY


def _longest(memory: int | None, threads: int, cache_bytes: int) -> int:
    """Bytes of a document up to which every stage may hold one at once."""
    room = _room(memory, threads, cache_bytes) - threads * cache_bytes
    return room // ((threads + BLOCKS_BESIDES) * MEMORY_PER_BYTE)


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

    def __init__(self, inputs: Sequence[Input], wanted: bool | None, sink: Sink) -> None:
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

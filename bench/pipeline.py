"""Files to token files: the speed of each kind of input against the same text in memory, the peak of memory, and the
peer's way.

    python bench/pipeline.py                             # 200 MB of documents of about 2,000 bytes
    python bench/pipeline.py --megabytes 2000 --memory 640 --folder /var/tmp --only memory text jsonl parquet
    python bench/pipeline.py --only memory text jsonl parquet gigatoken --json pipeline.json
    python bench/pipeline.py --only buffer column --warm # what a column costs, of text that the caches know

Each way runs in a fresh process, and they take turns over the rounds. *memory* is ``encode_batch`` of a list of all
documents, *column* of an Arrow column, *buffer* ``encode`` of one text; what is read from files, which the system has
in its cache, goes to ``.bin`` shards on the disk, flushed (``--folder /dev/shm`` leaves the disk out). *gigatoken* is
its ``encode_files`` and writing what it returns, not flushed. The kernels of all are compiled, or loaded, before, and
the caches know none of the text; with ``--warm`` they know as much as they hold. The documents are those of the sample,
in a random order again and again if that is smaller; those of *lines* and *gz* have spaces for line ends. numbatok's
numbers of tokens are compared. Where other work runs on the machine, look at the seconds that all threads ran on
processors (the least of the rounds).
"""

import json
import math
import os
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import _common
import _sides
from _common import complain, short

FILES = ("english-web",)
DOCUMENT_BYTES = 2000
SEPARATOR = "\n<|endoftext|>\n"
OF_LINES = ("lines", "gz")
FROM_FILES = ("text", "jsonl", "parquet", *OF_LINES)
WAYS = ("memory", "column", "buffer", *FROM_FILES, "gigatoken")


def write_corpus(name: str, size: int, folder: Path, wanted: list[str]) -> dict[str, Any]:
    """Write the same documents in each form; their paths, and bytes of text."""
    import gzip

    text = (_common.read_text(name, min(size, 1 << 26)) or b"").decode().replace(SEPARATOR, "\n\n")
    documents = [text[begin : begin + DOCUMENT_BYTES] for begin in range(0, len(text), DOCUMENT_BYTES)]
    order = random.Random(1)
    paths = {kind: str(folder / f"corpus.{kind}") for kind in FROM_FILES}
    written, count, parts = 0, 0, []
    with open(paths["text"], "w", encoding="utf-8") as text_file, open(paths["jsonl"], "w", encoding="utf-8") as lines:
        while written < size:
            if count:
                order.shuffle(documents)
            for document in documents:
                # Its number makes the same document another one.
                document = f"{document} {count}"
                text_file.write(document + SEPARATOR)
                lines.write(json.dumps({"id": count, "text": document}, ensure_ascii=False) + "\n")
                parts.append(document)
                written += len(document.encode())
                count += 1
                if written >= size:
                    break
    if set(OF_LINES) & set(wanted):
        Path(paths["lines"]).write_text("\n".join(part.replace("\n", " ") for part in parts), encoding="utf-8")
    if "gz" in wanted:
        with open(paths["lines"], "rb") as source, gzip.open(paths["gz"], "wb", 5) as packed:
            shutil.copyfileobj(source, packed)
    if {"parquet", "column"} & set(wanted):
        import pyarrow
        from pyarrow import parquet

        table = pyarrow.table({"id": range(count), "text": parts})
        parquet.write_table(table, paths["parquet"], row_group_size=20_000)
    if hasattr(os, "sync"):
        os.sync()  # or the first ways would share the disk with it
    return {"paths": paths, "bytes": written, "documents": count}


def worker(task: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Encode once, one way; seconds, tokens, and the peak of memory."""
    way = task["way"]
    threads = len(task["cores"])
    side = _sides.load({**task, "side": "gigatoken" if way == "gigatoken" else "numbatok"})
    output = Path(task["output"])
    shutil.rmtree(output, ignore_errors=True)
    unrelated = _common.unrelated_text(1 << 18)
    side.encode(unrelated)
    side.encode_batch([unrelated] * 8)

    def run() -> int:
        """The way, and the number of tokens."""
        raise NotImplementedError

    if way == "gigatoken":
        run = _by_gigatoken(task, threads)
    else:
        assert isinstance(side, _sides.Numbatok)
        side.tokenizer.clear_cache()
        run = (
            _from_files(side.tokenizer, task, threads)
            if way in FROM_FILES
            else _in_memory(side.tokenizer, task, threads)
        )
    if task["warm"]:
        run()
        shutil.rmtree(output, ignore_errors=True)
    most = task["memory"] << 20 if way in FROM_FILES else math.inf
    _have_memory(min(2 * task["bytes"], most))
    used = time.process_time()
    seconds, tokens = _common.timed(run)
    used = time.process_time() - used
    peak = _common.peak_bytes()
    shutil.rmtree(output, ignore_errors=True)
    yield {
        "seconds": seconds,
        "processor": used,
        "tokens": tokens,
        "peak_mib": math.nan if peak is None else peak / (1 << 20),
    }


def _have_memory(size: float) -> None:
    """Let the memory of caches and ids be such as the system has had: fresh from a machine's host it can cost more than
    all else.
    """
    import numpy as np

    np.ones(int(size), np.uint8)
    _common.forget_peak()


def _in_memory(tokenizer: Any, task: dict[str, Any], threads: int) -> Any:
    way, paths = task["way"], task["paths"]
    if way == "column":
        import pyarrow
        from pyarrow import parquet

        column = parquet.read_table(paths["parquet"], columns=["text"])["text"]
        tokenizer.encode_batch(pyarrow.array([_common.unrelated_text(1 << 18)] * 8))  # loads what columns need
        tokenizer.clear_cache()
        return lambda: len(tokenizer.encode_batch(column, num_threads=threads).ids)
    text = Path(paths["text"]).read_bytes()
    if way == "buffer":
        whole = text.replace(SEPARATOR.encode(), b"\n")
        return lambda: len(tokenizer.encode(whole, num_threads=threads))
    documents = text.decode().split(SEPARATOR)[:-1]
    return lambda: len(tokenizer.encode_batch(documents, num_threads=threads).ids)


def _from_files(tokenizer: Any, task: dict[str, Any], threads: int) -> Any:
    from numbatok.pipelines import encode_files

    way = task["way"]
    options = {
        "separator": SEPARATOR if way == "text" else "\n",
        "memory": task["memory"] << 20,
        "num_threads": threads,
    }
    if way in OF_LINES:
        options["input_format"] = "text"
    other = Path(task["output"] + ".txt")
    other.write_text(_common.unrelated_text(1 << 18) * 8, encoding="utf-8")
    encode_files(tokenizer, other, task["output"], num_threads=threads, separator="e")
    shutil.rmtree(task["output"])
    tokenizer.clear_cache()
    return lambda: encode_files(tokenizer, task["paths"][way], task["output"], **options).tokens


def _by_gigatoken(task: dict[str, Any], threads: int) -> Any:
    import awkward
    import gigatoken
    import numpy as np

    tokenizer = gigatoken.Tokenizer(task["vocabulary"]["json"])
    tokenizer.encode_batch([_common.unrelated_text(1 << 18)] * 8, parallel=threads > 1)
    source = gigatoken.TextFileSource([task["paths"]["text"]], separator=SEPARATOR.encode())

    def run() -> int:
        found = tokenizer.encode_files(source, parallel=threads > 1)
        flat = np.asarray(awkward.flatten(found)).astype(np.uint16)
        output = Path(task["output"])
        output.mkdir()
        with open(output / "tokens.bin", "wb") as file:
            flat.tofile(file)
            file.flush()
        np.save(output / "offsets.npy", np.append(0, np.cumsum(np.asarray(awkward.num(found)))))
        return len(flat)

    return run


def main() -> int:
    """Measure and print; 1 if a process failed or the numbers of tokens differ."""
    parser = _common.parser(__doc__)
    parser.set_defaults(cores=_common.all_cores())
    parser.add_argument("--files", nargs=1, metavar="NAME", help=f"a corpus file or path (default: {FILES[0]})")
    parser.add_argument("--megabytes", type=float, default=200, help="of text (default: 200)")
    parser.add_argument("--memory", type=int, default=1024, help="MiB that encode_files may take (default: 1024)")
    parser.add_argument("--folder", metavar="DIR", help="where the corpus stays, to be used again (default: nowhere)")
    parser.add_argument("--warm", action="store_true", help="do it once before it is measured")
    parser.add_argument("--rounds", type=int, default=3, help="processes for each way (default: 3)")
    parser.add_argument("--timeout", type=float, default=1200, help="seconds that a process may take (default: 1200)")
    parser.add_argument(
        "--only", nargs="*", choices=WAYS, default=list(WAYS), metavar="WAY", help=f"of {', '.join(WAYS)}"
    )
    options = parser.parse_args()
    about = _common.machine(options.cores)
    _common.print_machine(about)
    failed = False
    seconds: dict[str, list[float]] = {}
    used: dict[str, list[float]] = {}
    peaks: dict[str, float] = {}
    tokens: dict[str, int] = {}
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        folder = Path(temporary)
        (name,) = _common.choose_files(options.files, FILES)[:1]
        started = time.perf_counter()
        size = int(options.megabytes * 1e6)
        if options.folder is None:
            corpus = write_corpus(name, size, folder, options.only)
        else:
            kept = Path(options.folder, f"{Path(name).stem}-{size}")
            if not (kept / "corpus.json").exists():
                kept.mkdir(exist_ok=True)
                (kept / "corpus.json").write_text(json.dumps(write_corpus(name, size, kept, list(WAYS))))
            corpus = json.loads((kept / "corpus.json").read_text())
        complain(f"{corpus['documents']:,} documents after {time.perf_counter() - started:.0f} s")
        vocabulary = _sides.prepare(options.tokenizer, folder)
        for _ in range(options.rounds):
            for way in options.only:
                task = {**corpus, "vocabulary": vocabulary, "way": way, "output": str(folder / "out")}
                task |= {"memory": options.memory, "warm": options.warm}
                reports, error = _common.run_worker(__file__, task, cores=options.cores, timeout=options.timeout)
                if error is not None:
                    complain(f"{way} failed: {error}")
                    failed = True
                    continue
                seconds.setdefault(way, []).append(reports[-1]["seconds"])
                used.setdefault(way, []).append(reports[-1]["processor"])
                peaks[way] = max(peaks.get(way, 0), reports[-1]["peak_mib"])
                tokens[way] = reports[-1]["tokens"]
    alike = [way for way in tokens if way not in ("gigatoken", "buffer")]
    counts = {(way in OF_LINES, tokens[way]) for way in alike}
    if len(counts) > len({way in OF_LINES for way in alike}):
        complain(f"other numbers of tokens: {tokens}")
        failed = True
    speeds = {way: corpus["bytes"] / 1e6 / statistics.median(all_of) for way, all_of in seconds.items()}
    best = {way: corpus["bytes"] / 1e6 / min(all_of) for way, all_of in seconds.items()}
    rows = [
        [
            way,
            short(best[way]),
            short(speed),
            f"{speed / speeds['memory']:.0%}" if "memory" in speeds else "",
            short(min(used[way])),
            f"{peaks[way]:.0f}",
        ]
        for way, speed in speeds.items()
    ]
    _common.print_table(["way", "MB/s, best", "median", "of memory", "processor s", "peak MiB"], rows)
    _common.write_json(
        options.json, about, tokenizer=options.tokenizer, seconds=seconds, used=used, peaks=peaks, tokens=tokens
    )
    return int(failed)


if __name__ == "__main__":
    _common.run_script(worker, main)

"""The interfaces of other libraries over numbatok, against those libraries: the same calls, results compared first.

    python bench/compat.py
    python bench/compat.py -t o200k_base --files code --rounds 5

tiktoken: `encode` and `encode_ordinary` of one text of 28 bytes, 256 bytes and 64 KiB, and `encode_batch` of 20,000
documents, with default arguments and results as lists. Texts are cut at different characters of a sample. Each library
runs in fresh, pinned processes, which take turns over the rounds; the same calls are made over and over. The figures
are the median and the best, over all repeats of all rounds, of the mean of one sweep over the texts. The result is 2
for a tokenizer that tiktoken can't be given, 1 where results differ or a process failed.
"""

import hashlib
import importlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import _common
import _sides
from _common import Figures, complain, short

MODULES = {"numbatok": "numbatok.compat.tiktoken", "tiktoken": "tiktoken"}
SIZES = (28, 256, 64 << 10)
FILES = ("english-web",)


def cuts(text: bytes, size: int, count: int) -> list[str]:
    """``count`` texts of at most ``size`` bytes, evenly spread, cut at characters."""
    step = max(1, (len(text) - size) // count)
    return [text[at : at + size].decode("utf-8", "ignore") for at in range(0, step * count, step)]


def digest_of(results: list[list[int]]) -> str:
    """What tells results apart; exits with the reason where they are no lists of ints."""
    kinds = {type(ids) for ids in results} | set(map(type, chain.from_iterable(results)))
    if kinds - {list, int}:
        sys.exit(f"results hold {kinds - {list, int}}; wanted lists of ints")
    return hashlib.sha256(repr(results).encode()).hexdigest()


def encoding_of(side: str, vocabulary: dict[str, Any]) -> Any:
    """A library's encoding, made from a rank file."""
    module = importlib.import_module(MODULES[side])
    load = importlib.import_module(f"{MODULES[side]}.load")
    return module.Encoding(
        "benchmark",
        pat_str=vocabulary["pattern"],
        mergeable_ranks=load.load_tiktoken_bpe(vocabulary["ranks"]),
        special_tokens=vocabulary["special_tokens"],
    )


def sweeps(sweep: Callable[[], Any], calls: int, seconds: float) -> list[float]:
    """Mean seconds a call of repeated sweeps, at least three."""
    means: list[float] = []
    begin = time.perf_counter()
    while len(means) < 3 or time.perf_counter() - begin < seconds:
        means.append(_common.timed(sweep)[0] / calls)
    return means


def worker(task: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Time one library on all cases; a report of the sweeps' mean seconds a call for each."""
    text = Path(task["path"]).read_bytes()
    encoding = encoding_of(task["side"], task["vocabulary"])
    encoding.encode(_common.unrelated_text(1 << 12))
    share = _common.CoreShare()
    for size in task["sizes"]:
        texts = cuts(text, size, max(4, min(256, (1 << 21) // size)))
        for name, call in (("encode", encoding.encode), ("encode_ordinary", encoding.encode_ordinary)):
            digest = digest_of([call(one) for one in texts])

            def sweep(call: Callable[[str], Any] = call, texts: list[str] = texts) -> None:
                for one in texts:
                    call(one)

            means = sweeps(sweep, len(texts), task["seconds"])
            case = f"{name}, {size} bytes"
            yield {"case": case, "seconds": means, "digest": digest, "share_of_core": share.so_far()}
    documents = cuts(text, task["document_bytes"], task["documents"])
    digest = digest_of(encoding.encode_batch(documents))
    means = sweeps(lambda: encoding.encode_batch(documents), 1, task["seconds"])
    case = f"encode_batch, {len(documents)} documents of {task['document_bytes']} bytes"
    yield {"case": case, "seconds": means, "digest": digest, "share_of_core": share.so_far()}


def main() -> int:
    """Measure and print; 1 if a library failed or results differ, 2 for a tokenizer that has no ranks."""
    parser = _common.parser(__doc__)
    parser.add_argument("--files", nargs=1, metavar="NAME", help=f"a corpus file or path (default: {FILES[0]})")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help=f"bytes of a text (default: {SIZES})")
    parser.add_argument("--documents", type=int, default=20_000, help="documents of the batch (default: 20,000)")
    parser.add_argument("--document-bytes", type=int, default=512, help="bytes of a document (default: 512)")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each library (default: 3)")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each case in each process (default: 0.5)")
    parser.add_argument("--timeout", type=float, default=600, help="seconds that a process may take (default: 600)")
    options = parser.parse_args()
    (name,) = _common.choose_files(options.files, FILES)[:1]
    about = _common.machine(options.cores)
    _common.print_machine(about)
    seconds: dict[str, dict[str, list[float]]] = {}
    digests: dict[str, set[str]] = {}
    shares, failed = [], False
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        sample = _common.write_sample(name, 8_000_000, folder)
        vocabulary = _sides.prepare(options.tokenizer, folder)
        if not vocabulary["ranks"]:
            complain(f"{options.tokenizer} is no encoding of tiktoken's")
            return 2
        task = {
            "vocabulary": vocabulary,
            "path": str(sample.path),
            "sizes": list(options.sizes),
            "documents": options.documents,
            "document_bytes": options.document_bytes,
            "seconds": options.seconds,
        }
        for _ in range(options.rounds):
            for side in MODULES:
                reports, error = _common.run_worker(
                    __file__, {**task, "side": side}, cores=options.cores, timeout=options.timeout
                )
                if error is not None:
                    complain(f"{side} failed: {error}")
                    failed = True
                for told in reports:
                    shares.append(told["share_of_core"])
                    seconds.setdefault(told["case"], {}).setdefault(side, []).extend(told["seconds"])
                    digests.setdefault(told["case"], set()).add(told["digest"])
    for case, seen in digests.items():
        if len(seen) > 1:
            complain(f"results differ: {case}")
            failed = True
    print(f"\nmicroseconds a call on {name}, and numbatok's speed over tiktoken {_common.version('tiktoken')}")
    rows = []
    figures = {case: {side: Figures.of(means) for side, means in sides.items()} for case, sides in seconds.items()}
    for case, sides in figures.items():
        row = [case]
        for which in ("median", "best"):
            values = [getattr(sides[side], which, 0.0) if side in sides else 0.0 for side in MODULES]
            row += [*(short(value * 1e6) for value in values), f"{values[1] / values[0]:.2f}x" if all(values) else ""]
        rows.append(row)
    _common.print_table(["", "numbatok", "tiktoken", "medians", "numbatok", "tiktoken", "bests"], rows)
    _common.warn_of_others(shares, options.cores)
    _common.write_json(options.json, about, tokenizer=options.tokenizer, text=name, seconds=figures)
    return int(failed)


if __name__ == "__main__":
    _common.run_script(worker, main)

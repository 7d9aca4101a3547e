"""How long one call of ``encode`` takes, for texts of 16 bytes to 64 KiB.

    python bench/latency.py
    python bench/latency.py --files code --peers gigatoken tiktoken --rounds 5

Each side runs in fresh, pinned processes, which take turns over the rounds. For each size, texts are cut at different
characters of a sample, so that no call gets the text of the call before; the same calls are made over and over, so
caches know all pretokens. With ``--repeat`` every call gets the same text. The figures are the median and the best,
over all repeats of all rounds, of the mean of one sweep over the texts. What the library returns is not turned into an
array.
"""

import gc
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import _common
import _sides
from _common import Figures, complain, short

SIZES = (16, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10)
FILES = ("english-web",)


def worker(task: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Time one side on all sizes; a report of the sweeps' mean seconds a call for each size."""
    text = Path(task["path"]).read_bytes()
    side = _sides.load(task)
    side.encode(_common.unrelated_text(1 << 12))
    encode = side.encode
    gc.disable()
    share = _common.CoreShare()
    for size in task["sizes"]:
        count = max(4, min(256, (1 << 21) // size))
        texts = _common.cuts(text, size, count)
        if task["repeat"]:
            texts = texts[:1] * count
        for one in texts:
            encode(one)
        means: list[float] = []
        begin = time.perf_counter()
        while len(means) < 5 or time.perf_counter() - begin < task["seconds"]:
            started = time.perf_counter()
            for one in texts:
                encode(one)
            means.append((time.perf_counter() - started) / count)
            if len(means) >= 2 and time.perf_counter() - begin > 10 * task["seconds"]:
                break
        yield {"size": size, "seconds": means, "version": side.version(), "share_of_core": share.so_far()}


def show(figures: dict[str, dict[int, Figures]], versions: dict[str, str], sizes: list[int], which: str) -> None:
    """Print the medians, or the bests, of all sides and sizes."""
    rows = []
    ours = figures.get("numbatok", {})
    for label, by_size in figures.items():
        cells = [f"{label} {versions[label]}"]
        for size in sizes:
            seconds = getattr(by_size.get(size), which, None)
            cell = "" if seconds is None else short(seconds * 1e6)
            if seconds is not None and label != "numbatok" and size in ours:
                cell += f" ({seconds / getattr(ours[size], which):.2f}x)"
            cells.append(cell)
        rows.append(cells)
    _common.print_table(["", *map(str, sizes)], rows)


def main() -> int:
    """Measure and print; 1 if a side failed."""
    parser = _common.parser(__doc__)
    parser.add_argument("--files", nargs=1, metavar="NAME", help=f"a corpus file or path (default: {FILES[0]})")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help=f"bytes of a text (default: {SIZES})")
    parser.add_argument("--repeat", action="store_true", help="give every call the same text")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each side (default: 3)")
    parser.add_argument("--seconds", type=float, default=0.3, help="for each size in each process (default: 0.3)")
    parser.add_argument("--timeout", type=float, default=600, help="seconds that a process may take (default: 600)")
    _sides.add_options(parser)
    options = parser.parse_args()
    (name,) = _common.choose_files(options.files, FILES)[:1]
    about = _common.machine(options.cores)
    _common.print_machine(about)
    seconds: dict[str, dict[int, list[float]]] = {}
    shares = []
    versions, failed = {}, False
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        sample = _common.write_sample(name, 8_000_000, folder)
        task = {
            "vocabulary": _sides.prepare(options.tokenizer, folder),
            "path": str(sample.path),
            "sizes": list(options.sizes),
            "repeat": options.repeat,
            "seconds": options.seconds,
        }
        sides = _sides.present(options.peers, not options.no_install)
        for _ in range(options.rounds):
            for label, python in sides.items():
                reports, error = _common.run_worker(
                    __file__, {**task, "side": label}, cores=options.cores, python=python, timeout=options.timeout
                )
                if error is not None:
                    complain(f"{label} failed: {error}")
                    failed = True
                for told in reports:
                    versions[label] = told["version"]
                    shares.append(told["share_of_core"])
                    seconds.setdefault(label, {}).setdefault(told["size"], []).extend(told["seconds"])
    figures = {
        label: {size: Figures.of(means) for size, means in by_size.items()} for label, by_size in seconds.items()
    }
    mode = "the same text again" if options.repeat else "texts cut at different places"
    for which in ("median", "best"):
        print(f"\nmicroseconds a call on {name}, {mode}: {which} (numbatok's speed over it)")
        show(figures, versions, options.sizes, which)
    _common.warn_of_others(shares, options.cores)
    results = {"text": name, "repeat": options.repeat, "versions": versions, "seconds": figures}
    _common.write_json(options.json, about, tokenizer=options.tokenizer, **results)
    return int(failed)


if __name__ == "__main__":
    _common.run_script(worker, main)

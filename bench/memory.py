"""What a process holds: before, while and after it encodes one long text, and as calls go on.

    python bench/memory.py
    python bench/memory.py --only calls --calls 1000000 --peers tiktoken

*One text*: the process's resident memory when the library and the tokenizer are loaded and have worked once; how much
more, with the text there as a ``str``, it takes at most while the text is encoded the first time; and how much more it
still holds when that result, and four more, have been thrown away. Slow libraries get only a part, and all figures
stand beside the size of the text.

*Calls*: the resident memory of a process that encodes texts of words never seen before, call by call: it may rise until
caches are at their bounds, and then no more. Numbers are megabytes above those before the first of these calls.

Each side runs in a fresh, pinned process. Linux tells the most that a process has held since the count was set to
nothing; other systems tell less, and figures that they do not tell are left out.
"""

import os
import random
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import _common
import _sides
from _common import complain, short

FILES = ("english-web",)
POINTS = 10  # measurements over all calls
PASSES = 5
TEXT, CALLS = "text", "calls"


def resident_bytes() -> int | None:
    """The memory that this process uses, or its most so far where the system tells only that; None if unknown."""
    with suppress(OSError, AttributeError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    with suppress(ImportError):
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return None


def forget_peak() -> bool:
    """Let :func:`_common.peak_bytes` count from now on; whether the system can."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
        return True
    return False


def measure_text(task: dict[str, Any], side: _sides.Side) -> Iterator[dict[str, Any]]:
    """Report memory before, while and after the text is encoded, in bytes."""
    loaded = resident_bytes()
    text = Path(task["path"]).read_bytes().decode()
    before, counts = resident_bytes(), forget_peak()
    result = side.encode(text)
    peak = _common.peak_bytes() if counts else None
    ids = len(side.ids_of(result))
    for _ in range(PASSES - 1):
        del result
        result = side.encode(text)
    del result
    after = resident_bytes()
    if loaded is None or before is None or after is None:
        yield {"error": "this system does not tell a process's memory"}
        return
    told = {"bytes": task["bytes"], "ids": ids, "loaded": loaded, "held": after - before}
    yield told | ({} if peak is None else {"peak": peak - before})


def measure_calls(task: dict[str, Any], side: _sides.Side) -> Iterator[dict[str, Any]]:
    """Report the memory after each tenth of the calls, each of which gets words of random letters."""
    choose = random.Random(3)
    # Bytes to letters and, one in eight, spaces.
    letters = bytes(32 if byte % 8 == 7 else 97 + byte % 26 for byte in range(256))

    def text() -> str:
        return choose.randbytes(task["call_bytes"]).translate(letters).decode()

    for _ in range(100):
        side.encode(text())
    before = resident_bytes()
    if before is None:
        yield {"error": "this system does not tell a process's memory"}
        return
    for point in range(1, POINTS + 1):
        for _ in range(task["calls"] // POINTS):
            side.encode(text())
        yield {"calls": point * (task["calls"] // POINTS), "grown": (resident_bytes() or 0) - before}


def worker(task: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Watch the memory of one side."""
    side = _sides.load(task)
    side.encode(_common.unrelated_text(1 << 12))
    yield from measure_text(task, side) if task["kind"] == TEXT else measure_calls(task, side)


def show_text(name: str, results: dict[str, Any]) -> None:
    """Print the table of one text."""
    print(f"megabytes for {name} as one str")
    rows = []
    for label, told in results.items():
        cells = [short(told[key] / 1e6) if key in told else "" for key in ("loaded", "bytes", "peak", "held")]
        rows.append([label, *cells, told.get("error", "")])
    _common.print_table(["", "loaded", "text", "more at most", "more after", ""], rows)


def show_calls(results: dict[str, list[dict[str, Any]]], calls: int, size: int) -> None:
    """Print the table of calls."""
    print(f"resident megabytes more after calls of unique texts of {size} bytes")
    columns = [calls // POINTS * part for part in (1, 2, 4, 6, 8, 10)]
    rows = []
    for label, reports in results.items():
        grown = {told["calls"]: short(told["grown"] / 1e6) for told in reports if "grown" in told}
        why = next((told["error"] for told in reports if "error" in told), "")
        rows.append([label, *(grown.get(number, why) for number in columns)])
    _common.print_table(["", *(f"{number:,}" for number in columns)], rows)


def main() -> int:
    """Measure and print; 1 where numbatok fails or does not finish."""
    parser = _common.parser(__doc__)
    parser.add_argument("--only", choices=(TEXT, CALLS), help="one of the two")
    parser.add_argument("--files", nargs=1, metavar="NAME", help=f"a corpus file or path (default: {FILES[0]})")
    parser.add_argument("--megabytes", type=float, default=64, help="of the text (default: 64)")
    parser.add_argument("--slow-megabytes", type=float, default=8, help="for the slow libraries (default: 8)")
    parser.add_argument("--calls", type=int, default=10**5, help="number of calls (default: 10^5)")
    parser.add_argument("--call-bytes", type=int, default=256, help="of each call's text (default: 256)")
    parser.add_argument("--timeout", type=float, default=300, help="seconds that a process may take (default: 300)")
    _sides.add_options(parser)
    options = parser.parse_args()
    if options.calls < POINTS:
        parser.error(f"--calls must be at least {POINTS}")
    (name,) = _common.choose_files(options.files, FILES)[:1]
    about = _common.machine(options.cores)
    _common.print_machine(about)
    texts: dict[str, Any] = {}
    calls: dict[str, list[dict[str, Any]]] = {}
    failed = False
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        vocabulary = _sides.prepare(options.tokenizer, folder)
        sizes = {slow: getattr(options, f"{'slow_' * slow}megabytes") for slow in (False, True)}
        samples = {slow: _common.write_sample(name, int(size * 1e6), folder) for slow, size in sizes.items()}
        for label, python in _sides.present(options.peers, not options.no_install).items():
            sample = samples[_sides.SIDES[label].slow]
            for kind in (options.only,) if options.only else (TEXT, CALLS):
                task = {"vocabulary": vocabulary, "side": label, "kind": kind}
                task |= {"path": str(sample.path), "bytes": sample.size}
                task |= {"calls": options.calls, "call_bytes": options.call_bytes}
                reports, error = _common.run_worker(
                    __file__, task, cores=options.cores, python=python, timeout=options.timeout
                )
                if error is not None:
                    complain(f"{label} failed: {error}")
                    reports.append({"error": error})
                    failed |= label == "numbatok"
                if kind == TEXT:
                    texts[label] = reports[0]
                else:
                    calls[label] = reports
    if texts:
        show_text(name, texts)
    if calls:
        show_calls(calls, options.calls, options.call_bytes)
    _common.write_json(
        options.json,
        about,
        tokenizer=options.tokenizer,
        name=name,
        text=texts,
        calls=calls,
        call_bytes=options.call_bytes,
    )
    return int(failed)


if __name__ == "__main__":
    _common.run_script(worker, main)

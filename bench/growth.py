"""How time grows with the length of one piece that the split rule does not cut, and memory with the number of calls.

    python bench/growth.py
    python bench/growth.py --longest 100000 --timeout 20 --peers tiktoken
    python bench/growth.py --only memory --calls 1000000

*Time*: texts that are one piece (a letter repeated, spaces before a letter, random letters), another in each call. Each
side runs in a process of its own for each kind of text, which is ended after ``--timeout`` seconds: some libraries
take quadratic time, or fail. "power" is the exponent of the growth from the length before: 1 is linear, 2 quadratic.

*Memory*: the resident set of a process that encodes texts of words never seen before, call by call: it may rise until
caches are at their bounds, and then no more. Numbers are megabytes above those before the first of these calls.
"""

import math
import os
import random
import string
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import _common
import _sides
from _common import short

LETTERS, SPACES, RANDOM = '"a" * n', '" " * n + "x"', "n random letters"
KINDS = (LETTERS, SPACES, RANDOM)
POINTS = 10  # measurements of memory over all calls


def one_piece(kind: str, length: int, number: int) -> str:
    """A text of about ``length`` characters, another for each ``number``."""
    if kind == LETTERS:
        return "a" * (length - number)
    if kind == SPACES:
        return " " * (length - number) + "x"
    return "".join(random.Random(number).choices(string.ascii_lowercase, k=length))


def time_pieces(task: dict[str, Any], side: _sides.Side) -> Iterator[dict[str, Any]]:
    """Report the least seconds of a call for each length, shortest first; an error ends the series."""
    for length in task["lengths"]:
        durations: list[float] = []
        try:
            while len(durations) < 3 and sum(durations) < 2:
                text = one_piece(task["kind"], length, len(durations))
                durations.append(_common.timed(partial(side.encode, text))[0])
        except BaseException as error:  # a panic in Rust is no Exception
            if isinstance(error, KeyboardInterrupt):
                raise
            yield {"length": length, "error": f"{type(error).__name__}: {error}".splitlines()[0]}
            return
        yield {"length": length, "seconds": min(durations)}


def resident_bytes() -> int | None:
    """The memory that this process uses, or its most so far where the system tells only that; None if unknown."""
    with suppress(OSError, AttributeError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    with suppress(ImportError):
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return None


def measure_memory(task: dict[str, Any], side: _sides.Side) -> Iterator[dict[str, Any]]:
    """Report the memory after each tenth of the calls, each of which gets words of random letters."""
    choose = random.Random(3)
    # Bytes to letters and, one in eight, spaces.
    letters = bytes(32 if byte % 8 == 7 else 97 + byte % 26 for byte in range(256))

    def text() -> str:
        return choose.randbytes(task["bytes"]).translate(letters).decode()

    for _ in range(100):
        side.encode(text())
    before = resident_bytes()
    if before is None:
        yield {"error": "this system does not tell a process's memory"}
        return
    yield {"calls": 0, "resident": before, "grown": 0}
    for point in range(1, POINTS + 1):
        for _ in range(task["calls"] // POINTS):
            side.encode(text())
        after = resident_bytes() or 0
        yield {"calls": point * (task["calls"] // POINTS), "resident": after, "grown": after - before}


def worker(task: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Time pieces of one kind, or watch memory."""
    side = _sides.load(task)
    side.encode(_common.unrelated_text(1 << 12))
    yield from measure_memory(task, side) if task["kind"] == "memory" else time_pieces(task, side)


def series(reports: list[dict[str, Any]], lengths: list[int], error: str | None) -> list[str]:
    """The cells of one side's row: time, and the power of its growth."""
    cells: list[str] = []
    before: dict[str, Any] | None = None
    for length in lengths:
        told = next((one for one in reports if one["length"] == length), None)
        if told is None or "error" in told:
            cells.append((told["error"] if told else error or "not reached")[:40])
            break
        power = ""
        if before is not None and told["seconds"] > 1e-4:
            steps = math.log(told["length"] / before["length"])
            power = f" (power {math.log(told['seconds'] / before['seconds']) / steps:.1f})"
        cells.append(f"{short(told['seconds'] * 1e3)}{power}")
        before = told
    return cells + [""] * (len(lengths) - len(cells))


def main() -> int:
    """Measure and print; 1 where numbatok fails or does not finish."""
    parser = _common.parser(__doc__)
    parser.add_argument("--only", choices=("time", "memory"), help="one of the two")
    parser.add_argument("--longest", type=int, default=10**6, help="characters of the longest piece (default: 10^6)")
    parser.add_argument("--calls", type=int, default=10**5, help="calls for memory (default: 10^5)")
    parser.add_argument("--bytes", type=int, default=256, help="of each text for memory (default: 256)")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for each side and kind (default: 60)")
    _sides.add_options(parser)
    options = parser.parse_args()
    about = _common.machine(options.cores)
    _common.print_machine(about)
    lengths = [10**power for power in range(3, 7) if 10**power < options.longest] + [options.longest]
    results: dict[str, Any] = {"time": {}, "memory": {}}
    failed = False
    with tempfile.TemporaryDirectory() as temporary:
        task = {
            "vocabulary": _sides.prepare(options.tokenizer, Path(temporary)),
            "lengths": lengths,
            "calls": options.calls,
            "bytes": options.bytes,
        }
        sides = _sides.present(options.peers, not options.no_install)

        def run(label: str, kind: str) -> tuple[list[dict[str, Any]], str | None]:
            """One process of one side."""
            # Compiling kernels is not what the time is for: the first process of numbatok may do so.
            more = 120 if label == "numbatok" else 0
            return _common.run_worker(
                __file__,
                {**task, "side": label, "kind": kind},
                cores=options.cores,
                python=sides[label],
                timeout=options.timeout + more,
            )

        for kind in KINDS if options.only != "memory" else ():
            print(f"\nmilliseconds for one piece, {kind}")
            rows = []
            for label in sides:
                reports, error = run(label, kind)
                results["time"].setdefault(kind, {})[label] = reports + ([{"error": error}] if error else [])
                rows.append([label, *series(reports, lengths, error)])
                failed |= label == "numbatok" and (error is not None or any("error" in told for told in reports))
            _common.print_table(["", *(f"n = {length:,}" for length in lengths)], rows)
        if options.only != "time":
            print(f"resident megabytes more after calls of unique texts of {options.bytes} bytes")
            rows = []
            columns = [round(options.calls * part / POINTS) for part in (1, 2, 4, 6, 8, 10)]
            for label in sides:
                reports, error = run(label, "memory")
                results["memory"][label] = reports + ([{"error": error}] if error else [])
                grown = {told["calls"]: short(told["grown"] / 1e6) for told in reports if "grown" in told}
                why = error or next((told["error"] for told in reports if "error" in told), "")
                rows.append([label, *(grown.get(calls, why) for calls in columns)])
                failed |= label == "numbatok" and bool(why)
            _common.print_table(["", *(f"{calls:,}" for calls in columns)], rows)
    _common.write_json(options.json, about, tokenizer=options.tokenizer, results=results)
    return int(failed)


if __name__ == "__main__":
    _common.run_script(worker, main)

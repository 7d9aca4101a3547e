"""How time grows with the length of one piece that the split rule does not cut.

    python bench/growth.py
    python bench/growth.py --longest 100000 --timeout 20 --peers tiktoken

Texts are one piece (a letter repeated, spaces before a letter, random letters), another in each call. Each side runs in
a process of its own for each kind of text, which is ended after ``--timeout`` seconds: some libraries take quadratic
time, or fail. "power" is the exponent of the growth from the length before: 1 is linear, 2 quadratic.
"""

import math
import random
import string
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import _common
import _sides
from _common import short

LETTERS, SPACES, RANDOM = '"a" * n', '" " * n + "x"', "n random letters"
KINDS = (LETTERS, SPACES, RANDOM)


def one_piece(kind: str, length: int, number: int) -> str:
    """A text of about ``length`` characters, another for each ``number``."""
    if kind == LETTERS:
        return "a" * (length - number)
    if kind == SPACES:
        return " " * (length - number) + "x"
    return "".join(random.Random(number).choices(string.ascii_lowercase, k=length))


def worker(task: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Report the least seconds of a call for each length, shortest first; an error ends the series."""
    side = _sides.load(task)
    side.encode(_common.unrelated_text(1 << 12))
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
    parser.add_argument("--longest", type=int, default=10**6, help="characters of the longest piece (default: 10^6)")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for each side and kind (default: 60)")
    _sides.add_options(parser)
    options = parser.parse_args()
    about = _common.machine(options.cores)
    _common.print_machine(about)
    lengths = [10**power for power in range(3, 7) if 10**power < options.longest] + [options.longest]
    results: dict[str, dict[str, list[dict[str, Any]]]] = {}
    failed = False
    with tempfile.TemporaryDirectory() as temporary:
        task = {"vocabulary": _sides.prepare(options.tokenizer, Path(temporary)), "lengths": lengths}
        sides = _sides.present(options.peers, not options.no_install)
        for kind in KINDS:
            print(f"\nmilliseconds for one piece, {kind}")
            rows = []
            for label, python in sides.items():
                reports, error = _common.run_worker(
                    __file__,
                    {**task, "side": label, "kind": kind},
                    cores=options.cores,
                    python=python,
                    # Compiling kernels is not what the time is for: the first process of numbatok may do so.
                    timeout=options.timeout + (120 if label == "numbatok" else 0),
                )
                results.setdefault(kind, {})[label] = reports + ([{"error": error}] if error else [])
                rows.append([label, *series(reports, lengths, error)])
                failed |= label == "numbatok" and (error is not None or any("error" in told for told in reports))
            _common.print_table(["", *(f"n = {length:,}" for length in lengths)], rows)
    _common.write_json(options.json, about, tokenizer=options.tokenizer, results=results)
    return int(failed)


if __name__ == "__main__":
    _common.run_script(worker, main)

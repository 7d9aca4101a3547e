"""Many threads that share one tokenizer: encodes a second, and the processor time that each costs.

    python bench/callers.py                          # 1, 2, 8, 64 callers; 256 bytes, 0.4 MB, 1.5 MB; two cores
    python bench/callers.py --callers 1 8 --sizes 256 --peers

Each side and size runs in a fresh process. Every caller is a Python thread that has warmed up on its own texts and then
encodes them, one after the other, until the time is over; the texts differ from caller to caller. Libraries may use
threads of their own inside a call, as many as there are cores. The table gives, for each number of callers, how many
encodes all of them made in a second; *cpu* the microseconds of processor time of one encode; *least* the part of a fair
share that the caller with the fewest got. The median of all rounds.
"""

import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import _common
import _sides
from _common import complain, short

SIZES = (256, 400_000, 1_500_000)
CALLERS = (1, 2, 8, 64)
FILES = ("english-web",)
PEERS = ("gigatoken", "fastokens")


def texts_of(text: bytes, size: int, caller: int) -> list[str]:
    """Texts of about ``size`` bytes for one caller, from another part of the sample than most callers'."""
    count = max(2, min(64, (1 << 20) // size))
    step = max(1, (len(text) - size) // (count * 7))
    begins = [(caller * 997 * size + n * step) % max(1, len(text) - size) for n in range(count)]
    return [text[begin : begin + size].decode("utf-8", "ignore") for begin in begins]


def measure(side: _sides.Side, text: bytes, size: int, callers: int, seconds: float) -> dict[str, float]:
    """Run so many callers for a while; all must give the ids that one caller gives."""
    encode, ids_of = side.encode, side.ids_of
    barrier = threading.Barrier(callers + 1)
    counts = [0] * callers
    failures: list[str] = []
    deadline = [0.0]

    def call(number: int) -> None:
        texts = texts_of(text, size, number)
        wanted = [ids_of(encode(one)).tobytes() for one in texts]
        barrier.wait()
        barrier.wait()
        done, clock, until = 0, time.perf_counter, deadline[0]
        while True:
            for one in texts:
                result = encode(one)
                done += 1
                if clock() >= until:
                    break
            else:
                continue
            break
        counts[number] = done
        if ids_of(result).tobytes() != wanted[texts.index(one)]:
            failures.append(f"caller {number} got other ids")

    threads = [threading.Thread(target=call, args=(number,)) for number in range(callers)]
    for thread in threads:
        thread.start()
    barrier.wait()
    deadline[0] = time.perf_counter() + seconds
    used, started = time.process_time(), time.perf_counter()
    barrier.wait()
    for thread in threads:
        thread.join()
    elapsed, used = time.perf_counter() - started, time.process_time() - used
    if failures:
        raise AssertionError(failures[0])
    total = sum(counts)
    return {"rate": total / elapsed, "cpu": used / total, "least": min(counts) * callers / total}


def worker(task: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Measure one side at one size for all numbers of callers."""
    text = Path(task["path"]).read_bytes()
    side = _sides.load(task)
    for callers in task["callers"]:
        figures = measure(side, text, task["size"], callers, task["seconds"])
        yield {"callers": callers, "version": side.version(), **figures}


def main() -> int:
    """Measure and print; 1 if a side failed."""
    parser = _common.parser(__doc__)
    parser.set_defaults(cores=_common.all_cores()[:2])
    parser.add_argument("--files", nargs=1, metavar="NAME", help=f"a corpus file or path (default: {FILES[0]})")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help=f"bytes of a text (default: {SIZES})")
    parser.add_argument("--callers", type=int, nargs="+", default=CALLERS, help=f"threads (default: {CALLERS})")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each side and size (default: 3)")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each number of callers (default: 1)")
    parser.add_argument("--timeout", type=float, default=600, help="seconds that a process may take (default: 600)")
    _sides.add_options(parser, PEERS)
    options = parser.parse_args()
    (name,) = _common.choose_files(options.files, FILES)[:1]
    about = _common.machine(options.cores)
    _common.print_machine(about)
    results: dict[str, dict[int, dict[int, list[dict[str, float]]]]] = {}
    failed = False
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        sample = _common.write_sample(name, 16_000_000, folder)
        vocabulary = _sides.prepare(options.tokenizer, folder)
        sides = _sides.present(options.peers, not options.no_install)
        for _ in range(options.rounds):
            for size in options.sizes:
                for label, python in sides.items():
                    task = {"vocabulary": vocabulary, "path": str(sample.path), "size": size, "side": label}
                    task |= {"callers": list(options.callers), "seconds": options.seconds}
                    reports, error = _common.run_worker(
                        __file__, task, cores=options.cores, python=python, timeout=options.timeout
                    )
                    if error is not None:
                        complain(f"{label} failed at {size} bytes: {error}")
                        failed = True
                    for told in reports:
                        by_callers = results.setdefault(label, {}).setdefault(size, {})
                        by_callers.setdefault(told["callers"], []).append(told)
    figures = {
        label: {
            size: {
                callers: {key: statistics.median(one[key] for one in told) for key in ("rate", "cpu", "least")}
                for callers, told in by_callers.items()
            }
            for size, by_callers in by_size.items()
        }
        for label, by_size in results.items()
    }
    for size in options.sizes:
        print(f"\nencodes a second of {size} bytes of {name} (over one caller); cpu microseconds; least share")
        rows = []
        for label, by_size in figures.items():
            cells = [label]
            alone = by_size.get(size, {}).get(1, {}).get("rate")
            for callers in options.callers:
                one = by_size.get(size, {}).get(callers)
                if one is None:
                    cells.append("")
                    continue
                over = f" ({one['rate'] / alone:.2f}x)" if alone else ""
                cells.append(f"{one['rate']:.0f}{over} {short(one['cpu'] * 1e6)} {one['least']:.2f}")
            rows.append(cells)
        _common.print_table(["", *(f"{callers} callers" for callers in options.callers)], rows)
    _common.write_json(options.json, about, tokenizer=options.tokenizer, text=name, callers=figures)
    return int(failed)


if __name__ == "__main__":
    _common.run_script(worker, main)

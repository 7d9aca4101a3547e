"""Throughput by the number of threads, and what more cores than there are would give.

    python bench/scaling.py                                  # 1 and 2 threads: a long text, 20,000 short ones
    python bench/scaling.py --threads 1 2 4 8 --cores 0-7 --plot scaling.svg
    python bench/scaling.py --simulate 1 2 16 64 128         # workers that sleep instead of encoding

Each number of threads runs in fresh processes, which take turns over the rounds; ids are compared first. *first* is the
first pass of a process over the text, *later* the median of five more. The long text is one ``str``, the batch 20,000
cuts of 175 characters of it.

With ``--simulate`` a task takes a fixed time a byte, as ``--rate`` says, and its worker sleeps meanwhile: so any number
of workers runs on few cores, and what is measured is how well tasks and waves share the work out, which is the part of
the model that no small machine shows. ``--plot`` draws both, with the curve of the model: a call takes what its own
thread does alone (``--serial``, which bench/stages.py measures), and an n-th of the rest.
"""

import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import _common
import _sides
from _common import complain, short

FILES = ("english-web",)
DOCUMENT_BYTES = 175
DOCUMENTS = 20_000
LATER_PASSES = 5
SIMULATED_BYTES = 16_000_000  # of the long text whose bytes workers sleep for
MEASURED, SIMULATED = "measured", "simulated"


def encode_both(task: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Encode both texts with so many threads; seconds of the first pass and the later ones, and a digest of the ids."""
    import hashlib

    text = Path(task["path"]).read_bytes().decode()
    side = _sides.load(task)
    assert isinstance(side, _sides.Numbatok)
    tokenizer, threads = side.tokenizer, task["threads"]
    unrelated = _common.unrelated_text(1 << 20)
    tokenizer.encode(unrelated, num_threads=threads)
    tokenizer.encode_batch([unrelated[at : at + 100] for at in range(0, len(unrelated), 100)], num_threads=threads)
    documents = [text[begin : begin + DOCUMENT_BYTES] for begin in range(0, len(text), DOCUMENT_BYTES)][:DOCUMENTS]
    for name, encode in (
        ("long", lambda: tokenizer.encode(text, num_threads=threads)),
        ("batch", lambda: tokenizer.encode_batch(documents, num_threads=threads).ids),
    ):
        tokenizer.clear_cache()
        first, ids = _common.timed(encode)
        digest = hashlib.sha256(ids.tobytes()).hexdigest()
        later = [_common.timed(encode)[0] for _ in range(LATER_PASSES)]
        size = len((text if name == "long" else "".join(documents)).encode())
        yield {"what": name, "first": first, "later": statistics.median(later), "bytes": size, "digest": digest}


def measure(options: Any, folder: Path) -> tuple[dict[str, dict[int, dict[str, float]]], bool]:
    """(megabytes a second by text, threads and pass, whether a process failed or gave other ids)."""
    (name,) = _common.choose_files(options.files, FILES)[:1]
    sample = _common.write_sample(name, int(options.megabytes * 1e6), folder)
    vocabulary = _sides.prepare(options.tokenizer, folder)
    speeds: dict[str, dict[int, dict[str, list[float]]]] = {}
    digests: dict[str, set[str]] = {}
    failed = False
    for _ in range(options.rounds):
        for threads in options.threads:
            task = {"vocabulary": vocabulary, "path": str(sample.path), "side": "numbatok", "threads": threads}
            task["kind"] = MEASURED
            reports, error = _common.run_worker(__file__, task, cores=options.cores, timeout=options.timeout)
            if error is not None:
                complain(f"{threads} threads failed: {error}")
                failed = True
            for told in reports:
                digests.setdefault(told["what"], set()).add(told["digest"])
                passes = speeds.setdefault(told["what"], {}).setdefault(threads, {"first": [], "later": []})
                for which, all_of in passes.items():
                    all_of.append(told["bytes"] / told[which] / 1e6)
    for what, found in digests.items():
        if len(found) > 1:
            complain(f"{what}: other ids with another number of threads")
            failed = True
    medians = {
        what: {
            threads: {which: statistics.median(all_of) for which, all_of in passes.items()}
            for threads, passes in by_threads.items()
        }
        for what, by_threads in speeds.items()
    }
    return medians, failed


def show(speeds: dict[str, dict[int, dict[str, float]]]) -> None:
    """Print megabytes a second, and over one thread."""
    for what, by_threads in speeds.items():
        print(f"\n{what}: MB/s (over the fewest threads)")
        base = by_threads[min(by_threads)]
        rows = [
            [str(threads), *(f"{short(passes[which])} ({passes[which] / base[which]:.2f}x)" for which in passes)]
            for threads, passes in sorted(by_threads.items())
        ]
        _common.print_table(["threads", "first", "later"], rows)


# --- more workers than cores ---


def simulate(task: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """How many times faster than one worker, whose task takes ``rate`` MB/s, so many sleeping ones are."""
    import numba
    import numpy as np

    from numbatok import parallel
    from numbatok.kernels import dtypes
    from numbatok.kernels.intrinsics import field
    from numbatok.kernels.jit import kernel
    from numbatok.kernels.workers import _take_task, _task_at
    from numbatok.memory import address_of

    usleep = numba.types.ExternalFunction("usleep", numba.int32(numba.uint32))
    nanoseconds = int(1e3 / task["rate"])  # a byte

    @kernel("int64(int64, int64)")
    def sleep_tasks(shared, worker):
        """Take tasks, and sleep for each as long as its bytes say."""
        while True:
            number = _take_task(shared, worker)
            if number < 0:
                return np.int64(0)
            usleep(np.uint32(field(_task_at(shared, number), dtypes.TASK_BYTES) * nanoseconds // 1000))

    class NoScratch:
        """What a parallel call reads of a scratch."""

        def __init__(self) -> None:
            self.record = np.zeros(dtypes.WORK_FIELDS, np.int64)
            self.address = address_of(self.record)

    class SleepingCall(parallel.ParallelCall):
        """A call whose documents have lengths but no bytes: parts begin at their guesses."""

        def _find_seams(self, rows: Any) -> None:
            self._use(rows)

        def sleep(self) -> None:
            """Let the workers do all tasks, wave by wave."""
            for first, last in self._each_wave():
                self._run(sleep_tasks, *self._in_shares(first, last))

    for what, sizes in (("long", [SIMULATED_BYTES]), ("batch", [DOCUMENT_BYTES] * DOCUMENTS)):
        lengths = np.array(sizes, np.int64)
        total = int(lengths.sum())
        for workers in task["workers"]:
            numba.set_num_threads(workers)

            def call(workers: int = workers, lengths: Any = lengths, total: int = total) -> None:
                scratches: Any = [NoScratch() for _ in range(workers)]
                longest = parallel.longest_whole(total, workers)
                each = np.full(1, 2, np.int64)
                SleepingCall(scratches, np.zeros_like(lengths), lengths, each, longest, total).sleep()

            seconds, _ = _common.timed(call)
            yield {"what": what, "workers": workers, "times": total * nanoseconds / 1e9 / seconds}


def measure_simulated(options: Any) -> tuple[dict[str, dict[int, float]], bool]:
    """(times one worker's rate by text and number of sleeping workers, whether it failed)."""
    reports, error = _common.run_worker(
        __file__,
        {"kind": SIMULATED, "workers": options.simulate, "rate": options.rate},
        cores=options.cores,
        timeout=options.timeout,
        environment={"NUMBA_NUM_THREADS": str(max(options.simulate))},
    )
    if error is not None:
        complain(f"the simulation failed: {error}")
    times: dict[str, dict[int, float]] = {}
    for told in reports:
        times.setdefault(told["what"], {})[told["workers"]] = told["times"]
    rows = [[str(n), *(f"{found[n]:.1f}x" if n in found else "" for found in times.values())] for n in options.simulate]
    print("sleeping workers: times one worker's rate")
    _common.print_table(["workers", *times], rows)
    return times, error is not None


def worker(task: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Measure with so many threads, or let workers sleep."""
    return simulate(task) if task["kind"] == SIMULATED else encode_both(task)


def draw(path: Path, speeds: dict[str, Any], simulated: dict[str, Any], serial: float) -> None:
    """Plot what was measured, and what the model says; exits with status 1 where Matplotlib is missing."""
    try:
        import _plots
    except ImportError as error:
        complain(f"a plot needs matplotlib (pip install 'numbatok[bench]'): {error}")
        sys.exit(1)
    _plots.write(path, "light", lambda: _plots.scaling(speeds, simulated, {"batch": serial}), transparent=False)


def main() -> int:
    """Measure, simulate and print; 1 if a process failed."""
    parser = _common.parser(__doc__)
    parser.set_defaults(cores=_common.all_cores())
    parser.add_argument("--files", nargs=1, metavar="NAME", help=f"a corpus file or path (default: {FILES[0]})")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2], help="numbers of threads (default: 1 2)")
    parser.add_argument("--megabytes", type=float, default=32, help="of the long text (default: 32)")
    parser.add_argument("--rounds", type=int, default=5, help="processes of each number of threads (default: 5)")
    parser.add_argument("--timeout", type=float, default=600, help="seconds that a process may take (default: 600)")
    parser.add_argument("--simulate", type=int, nargs="*", default=[], metavar="N", help="numbers of sleeping workers")
    parser.add_argument("--rate", type=float, default=2.0, help="MB/s of a sleeping worker (default: 2)")
    parser.add_argument(
        "--serial", type=float, default=0.08, help="serial part of a batch, for the model (default: 0.08)"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw there; needs matplotlib")
    options = parser.parse_args()
    about = _common.machine(options.cores)
    _common.print_machine(about)
    speeds: dict[str, dict[int, dict[str, float]]] = {}
    failed = False
    if options.threads:
        with tempfile.TemporaryDirectory() as temporary:
            speeds, failed = measure(options, Path(temporary))
        show(speeds)
    simulated: dict[str, dict[int, float]] = {}
    if options.simulate:
        simulated, simulation_failed = measure_simulated(options)
        failed |= simulation_failed
    if options.plot:
        draw(options.plot, speeds, simulated, options.serial)
        print(f"written: {options.plot}")
    _common.write_json(options.json, about, tokenizer=options.tokenizer, speeds=speeds, simulated=simulated)
    return int(failed)


if __name__ == "__main__":
    _common.run_script(worker, main)

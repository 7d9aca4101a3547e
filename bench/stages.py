"""What each stage of encoding costs by itself, in numbatok.

    python bench/stages.py                              # GPT-2, four kinds of text
    python bench/stages.py --files english-web --megabytes 4

The kernels are called as ``encode`` calls them, through their addresses, from a loop that stops after one stage more
each time; a stage's cost is the difference. The cache has seen the whole text, so look-ups find everything:

- *walk*: where pretokens start, as a bitmap; GB/s of text
- *positions*: cuts between characters that no token spans, and from the bitmap to offsets
- *keys*: key, hash and prefetch
- *look-ups*: warm, ids written to a small buffer
- *encode*: the whole call, warm, with its result's memory
- *merge*: each distinct pretoken merged once, in order of appearance, without the cache

And of a batch of 20,000 short documents, and of the text as one, what the calling thread does while no worker can help.

All in one process, which is pinned; the least of all repeats.
"""

import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numba
import numpy as np

import _common
import _sides
import numbatok
from _common import least, short
from numbatok.kernels import dtypes, encode, spans, starts
from numbatok.kernels.intrinsics import array_at, at, call_kernel, field, table
from numbatok.memory import address_of

FILES = ("english-web", "code", "chinese", "russian")
WALK, POSITIONS, KEYS, LOOK_UPS = range(4)
STAGES = ("walk", "positions", "keys", "look-ups")
LONGEST = 1 << 10  # bytes of a pretoken that the merge is timed on
_CONTINUATION = np.uint8(0x80)
_TOP_BITS = np.uint8(0xC0)

_njit = numba.njit(error_model="numpy", nogil=True)


@_njit
def run_stages(view, work, text, length, last_stage):
    """Run the stages up to ``last_stage`` over all chunks of a text but the last; returns (bytes, pretokens) done.

    Pretokens are negative, a kernel's status, where a stage could not go on.
    """
    source = array_at(text, length, np.uint8)
    bitmap = table(work, dtypes.WORK_STARTS, np.uint64)
    positions = table(work, dtypes.WORK_POSITIONS, np.uint16)
    dropped = table(work, dtypes.WORK_DROPPED, np.uint64)
    drops = field(view, dtypes.VIEW_DROPS) != 0
    walker = field(view, dtypes.VIEW_WALKER)
    cutter = field(view, dtypes.VIEW_CUTTER)
    keyer = field(view, dtypes.VIEW_KEYER)
    looker = field(view, dtypes.VIEW_LOOKER)
    blocks = np.int64(dtypes.CHUNK_BLOCKS)
    starts.keep_tail(work, text, length)
    base = np.int64(0)
    pretokens = np.int64(0)
    while base + 2 * dtypes.CHUNK_BYTES < length:
        decided = call_kernel(walker, (view, work, text, length, base, length, blocks))
        if decided < 0:
            return base, decided
        last = starts.last_start(bitmap, min(decided - base, 64 * blocks - 1))
        end = base + last
        if last_stage > WALK:
            if cutter != 0:
                call_kernel(cutter, (view, work, text, length, base, end))
            count = spans.flatten(bitmap, 0, blocks, positions) - 1
            while np.int64(at(positions, count)) > last:
                count -= 1
            pretokens += count
            if last_stage >= KEYS:
                used = np.int64(0)
                for begin in range(0, count, dtypes.GROUP):
                    group = min(dtypes.GROUP, count - begin)
                    call_kernel(keyer, (work, text, length, base, np.int64(begin), group))
                    if drops:
                        encode.drop_keys(work, dropped, np.int64(0), begin, group)
                    if last_stage >= LOOK_UPS:
                        used = call_kernel(looker, (view, work, text, length, base, np.int64(begin), group, used))
                        if used < 0:
                            return base, used
        if end == base:  # one pretoken fills the chunk: pass over it
            end = base + dtypes.CHUNK_BYTES
            while at(source, end) & _TOP_BITS == _CONTINUATION:
                end += 1
        base = end
    return base, pretokens


@_njit
def run_merges(view, work, data, offsets):
    """Merge pieces of the memory at ``data`` that lie between neighbours of ``offsets``; returns the number of ids."""
    merger = field(view, dtypes.VIEW_MERGER)
    total = np.int64(0)
    for piece in range(len(offsets) - 1):
        total += call_kernel(merger, (view, work, data + offsets[piece], offsets[piece + 1] - offsets[piece]))
    return total


def distinct_pretokens(text: bytes, boundaries: Any) -> tuple[Any, Any]:
    """(bytes, offsets) of each pretoken that differs from all before and is short enough, with room for wide loads."""
    edges = boundaries.tolist()
    pieces = dict.fromkeys(text[begin:end] for begin, end in itertools.pairwise(edges))
    kept = [piece for piece in pieces if len(piece) <= LONGEST]
    offsets = np.cumsum([0, *map(len, kept)], dtype=np.int64)
    return np.frombuffer(b"".join(kept) + bytes(64), np.uint8), offsets


def measure(tokenizer: numbatok.Tokenizer, text: bytes, seconds: float) -> dict[str, float]:
    """The figures of one text: seconds of each stage and what they are divided by."""
    source = text.decode()
    for _ in range(2):  # the second call brings frequent entries home
        tokenizer.encode(source)
    boundaries = tokenizer.pretokenize(source)
    share = _common.CoreShare()
    engine = tokenizer._engine
    assert engine is not None
    view, memory = engine._view.address, np.frombuffer(text, np.uint8)
    with engine.scratch() as scratch:
        until, done, pretokens = [], 0, 0
        for stage in range(len(STAGES)):
            arguments = (view, scratch.address, address_of(memory), len(memory), stage)
            done, pretokens = run_stages(*arguments)
            if pretokens < 0:
                raise SystemExit(f"{STAGES[stage]} stopped with status {pretokens} at byte {done}")
            until.append(least(partial(run_stages, *arguments), seconds))
    whole = least(partial(tokenizer.encode, source), seconds)
    data, offsets = distinct_pretokens(text, boundaries)
    with engine.scratch() as scratch:
        merge = partial(run_merges, view, scratch.address, address_of(data), offsets)
        merge()  # compiles
        merging = least(merge, seconds)
    return {
        "bytes": len(text),
        "pretokens": len(boundaries) - 1,
        "stage_bytes": done,
        "stage_pretokens": pretokens,
        **{name: until[i] - (until[i - 1] if i else 0.0) for i, name in enumerate(STAGES)},
        "encode": whole,
        "merge": merging,
        "distinct": len(offsets) - 1,
        "distinct_bytes": int(offsets[-1]),
        "share_of_core": share.so_far(),
    }


def serial_share(call: Callable[..., object], seconds: float) -> dict[str, float]:
    """What a call, which takes ``num_threads``, keeps its thread alone for, and its share of one thread's call.

    That is the time outside of what runs workers, with everything in the caches: medians of some calls.
    """
    from numbatok.kernels import workers

    run, inside = workers.run_workers, [0.0]

    def timed(*arguments: int) -> None:
        started = time.perf_counter()
        run(*arguments)
        inside[0] += time.perf_counter() - started

    workers.run_workers = timed  # type: ignore[assignment]
    outside, alone = [], []
    try:
        begin = time.perf_counter()
        while len(alone) < 5 or time.perf_counter() - begin < seconds:
            alone.append(_common.timed(partial(call, num_threads=1))[0])
            inside[0] = 0.0
            outside.append(_common.timed(partial(call, num_threads=2))[0] - inside[0])
    finally:
        workers.run_workers = run
    serial = statistics.median(outside)
    return {"seconds": serial, "share": serial / statistics.median(alone)}


def main() -> int:
    """Measure and print."""
    parser = _common.parser(__doc__)
    parser.add_argument("--files", nargs="+", metavar="NAME", help=f"corpus files or paths; 'all' (default: {FILES})")
    parser.add_argument("--megabytes", type=float, default=8, help="of each file (default: 8)")
    parser.add_argument("--seconds", type=float, default=1, help="for each stage of each file (default: 1)")
    options = parser.parse_args()
    everywhere = _common.all_cores()
    _common.pin(options.cores)
    names = _common.choose_files(options.files, FILES)
    about = _common.machine(options.cores)
    _common.print_machine(about)
    figures: dict[str, dict[str, float]] = {}
    serial: dict[str, dict[str, dict[str, float]]] = {}
    for name in names:
        text = _common.read_text(name, int(options.megabytes * 1e6)) or b""
        if len(text) <= 4 * dtypes.CHUNK_BYTES:
            _common.complain(f"{name} is too short: {len(text)} bytes")
            continue
        with tempfile.TemporaryDirectory() as folder:
            tokenizer = _sides.Numbatok(_sides.prepare(options.tokenizer, Path(folder)), 1).tokenizer
        figures[name] = measure(tokenizer, text, options.seconds)
        _common.pin(everywhere)
        source = text.decode()
        documents = [source[begin : begin + 175] for begin in range(0, len(source), 175)][:20_000]
        serial[name] = {
            "batch": serial_share(partial(tokenizer.encode_batch, documents), options.seconds),
            "long": serial_share(partial(tokenizer.encode, source), options.seconds),
        }
        _common.pin(options.cores)
    print("\nns a pretoken, everything in the cache; walk and encode in GB/s too")
    rows: list[list[object]] = []
    for name, row in figures.items():
        cells: list[object] = [
            name,
            f"{row['bytes'] / row['pretokens']:.2f}",
            short(row["stage_bytes"] / row["walk"] / 1e9),
        ]
        cells += [short(row[stage] / row["stage_pretokens"] * 1e9) for stage in STAGES]
        cells += [short(row["encode"] / row["pretokens"] * 1e9), short(row["bytes"] / row["encode"] / 1e9)]
        rows.append(cells)
    _common.print_table(["", "bytes each", "walk GB/s", *STAGES, "encode", "encode GB/s"], rows)
    print("merging each distinct pretoken once")
    rows = []
    for name, row in figures.items():
        count, size, spent = row["distinct"], row["distinct_bytes"], row["merge"]
        rows.append([name, count, f"{size / count:.1f}", short(spent / count * 1e9), short(size / spent / 1e6)])
    _common.print_table(["", "distinct", "bytes each", "ns each", "MB/s"], rows)
    print("what the calling thread does alone, of a batch of 20,000 documents of 175 characters and of one long text")
    rows = [
        [name, *(cell for one in those.values() for cell in (f"{one['seconds'] * 1e3:.2f}", f"{one['share']:.1%}"))]
        for name, those in serial.items()
    ]
    _common.print_table(["", "ms, batch", "of one thread's call", "ms, long", "of one thread's call"], rows)
    _common.warn_of_others((row["share_of_core"] for row in figures.values()), options.cores)
    _common.write_json(options.json, about, tokenizer=options.tokenizer, stages=figures, serial=serial)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Memory: tables are bounded, results are given back, nothing grows with the number of calls."""

import gc
import os
import sys
import tracemalloc

import numpy as np
import pytest

import small
from numbatok import scratch as scratch_module
from numbatok.kernels import dtypes
from numbatok.memory import without_collection
from support import engine_of, output_of

GROWTH = r"""
    import os, random
    import small
    from numbatok import scratch

    assert min(scratch.MOST_NARROW_ENTRIES, scratch.MOST_WIDE_ENTRIES, scratch.MOST_ARENA_WORDS) > 1 << 15
    scratch.MOST_NARROW_ENTRIES = scratch.MOST_WIDE_ENTRIES = 1 << 12
    scratch.MOST_ARENA_WORDS = 1 << 15
    page = os.sysconf("SC_PAGE_SIZE")

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * page

    tokenizer = small.by_ranks()
    rng = random.Random(1)

    def work(calls):
        for _ in range(calls):
            words = [format(rng.getrandbits(64), "x") for _ in range(20)]
            text = " ".join(words) + " \u4e2d\u6587 " + "-" * rng.randint(1, 300)
            tokenizer.encode(text)
            tokenizer.encode_batch([text, text.encode(), "\ud800" + text])
            tokenizer.count(text)
            tokenizer.decode(tokenizer.encode(bytearray(text.encode())))
            tokenizer.encode(text, allowed_special=())
            try:
                tokenizer.encode(b"\xff" + text.encode())
            except UnicodeDecodeError:
                pass
        for size in (1 << 17, 1 << 20):
            tokenizer.encode("z" * size)
            tokenizer.encode("\u4e2d" * size)
            tokenizer.pretokenize("z " * size)

    work(4000)
    work(4000)  # what malloc keeps for reuse has grown to its size by then
    before = resident()
    work(8000)
    print(resident() - before)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads the resident set from Linux's /proc")
def test_no_growth_over_calls() -> None:
    """Thousands of calls of every kind with text never seen before, errors and long pieces among them: no growth."""
    grown = int(output_of(GROWTH))
    assert grown < 6 << 20, f"{grown >> 10} KiB in 8,000 rounds"


def test_tables_are_bounded() -> None:
    """No text makes the tables larger than their limits, which are of a size that a process can bear."""
    most = 16 * scratch_module.MOST_NARROW_ENTRIES + 32 * scratch_module.MOST_WIDE_ENTRIES
    most += 4 * scratch_module.MOST_ARENA_WORDS
    assert most <= 256 << 20
    tokenizer = small.by_ranks()
    tokenizer.encode("".join(f" {n:x}" for n in range(400_000)), num_threads=1)
    (scratch,) = engine_of(tokenizer).scratches.idle
    assert 8 * len(scratch._arrays[dtypes.WORK_TABLE]) <= most
    assert scratch.record[dtypes.WORK_NARROW_USED] <= scratch.record[dtypes.WORK_NARROW_LIMIT]
    assert scratch.record[dtypes.WORK_WIDE_USED] <= scratch.record[dtypes.WORK_WIDE_LIMIT]


def test_results_hold_no_more_than_they_show(small_ranks) -> None:
    """The room that was made for more ids is given back."""
    text = " the others" * 50_000
    for array in (small_ranks.encode(text), small_ranks.encode_batch([text]).ids, small_ranks.pretokenize(text)):
        assert array.base is None
        assert sys.getsizeof(array) < array.nbytes + 1000
    assert np.array_equal(small_ranks.encode(text), small_ranks.encode_batch([text]).ids)


def test_a_buffer_is_read_in_place(small_ranks) -> None:
    """Encoding bytes makes no copy of them: what is asked for is the result's first room, half an id a byte."""
    for text in (" the others", " the others é"):
        content = (text * 100_000).encode()
        small_ranks.encode(content)
        tracemalloc.start()
        ids = small_ranks.encode(content)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        first_output = 4 * (len(content) // 2 + 20_000)
        # NumPy from 2.5 on, when it gives the room that is not used back, counts what is left as new.
        assert peak < first_output + ids.nbytes + len(content) // 5


def test_temporary_buffers_of_a_long_pretoken_are_dropped(small_ranks) -> None:
    """After a pretoken of a megabyte the scratch is as small as before."""
    small_ranks.encode("z" * (1 << 20))
    for scratch in engine_of(small_ranks).scratches.idle:
        size = sum(
            scratch._arrays[field].nbytes for field in (dtypes.WORK_SYMBOLS, dtypes.WORK_HEAP, dtypes.WORK_STARTS)
        )
        assert size < 6 << 20


@pytest.mark.parametrize("place", range(6))
def test_an_interrupt_leaves_garbage_collection_on(place: int) -> None:
    """Wherever Ctrl-C strikes: it is delivered where functions begin and end."""
    events = 0

    def interrupt(_frame, event, _argument):
        nonlocal events
        if event != "line":
            events += 1
            if events == place + 1:
                raise KeyboardInterrupt
        return interrupt

    assert gc.isenabled()
    before, interrupted = sys.gettrace(), None
    try:
        sys.settrace(interrupt)
        without_collection(lambda: None)
    except KeyboardInterrupt as caught:
        interrupted = caught  # with its traceback, and so all that the frames hold
    finally:
        sys.settrace(before)
        is_on = gc.isenabled()
        gc.enable()
    assert is_on, interrupted


def test_garbage_collection_that_is_off_stays_off() -> None:
    """And is off meanwhile otherwise."""
    assert without_collection(gc.isenabled) is False
    assert gc.isenabled()
    gc.disable()
    try:
        without_collection(lambda: None)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_only_one_text_counts_as_encoded_again(small_ranks) -> None:
    """The third time in a row CPython makes and keeps a text's UTF-8; another text at the same place has none."""
    engine = engine_of(small_ranks)
    text = "\u4e2d\u6587 " * 10_000
    size = sys.getsizeof(text)
    for _ in range(2):
        small_ranks.encode(text)
    assert sys.getsizeof(text) == size
    mark, times = engine.placer._last_transcoded
    assert times == 2
    other = "\u6587\u4e2d " * 10_000
    engine.placer._last_transcoded = (id(other), *mark[1:]), times  # as if it lay where the first did
    small_ranks.encode(other)
    assert sys.getsizeof(other) == size
    for _ in range(3):
        small_ranks.encode(text)
    assert sys.getsizeof(text) > size

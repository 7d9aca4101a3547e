"""Stage 1: the walker's bitmap against splitting by hand, wherever blocks, chunks and the text's memory end."""

import itertools
import random
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
import texts
from numbatok.kernels import dtypes, walk_r50k
from support import address_of, engine_of, keep_tail, new_scratch, output_of

BLOCK = 64
#: A character, or a piece of the rule, of each class and each number of bytes.
EDGES = [
    "a",
    "é",
    "中",
    "𝔸",
    "1",
    "½",
    "〇",
    "𐄇",
    " ",
    "\n",
    "\u00a0",
    "\u3000",
    ".",
    "'",
    "’",
    "😀",
    "'s",
    "'ll",
    "\u0301",
]


def walk(tokenizer, text: bytes, base: int = 0, stop: int | None = None, blocks: int | None = None):
    """(offsets of the bits set below ``decided``, ``decided``) of one call of the walker; blocks reach ``stop``."""
    stop = len(text) if stop is None else stop
    blocks = -(-(stop - base) // BLOCK) if blocks is None else blocks
    data = np.frombuffer(text, np.uint8)
    scratch = new_scratch(tokenizer)
    keep_tail(scratch, data)
    bitmap = np.full(blocks + 1, dtypes.ALL_ONES, np.uint64)
    scratch.set_table(dtypes.WORK_STARTS, bitmap)
    view = engine_of(tokenizer)._view.address
    decided = walk_r50k.walk_r50k(view, scratch.address, address_of(data), len(data), base, stop, blocks)
    bits = np.unpackbits(bitmap[:blocks].astype("<u8").view(np.uint8), bitorder="little")
    found = base + np.flatnonzero(bits)
    assert (found < stop).all(), "a bit is set at or after the place where the text ends"
    return found[found < decided].tolist(), decided


def filler(length: int) -> str:
    """So many bytes of pretokens `` a``; every even distance from the end is a start, whatever follows."""
    return "b" * (length % 2) + " a" * (length // 2)


@given(texts.well_formed.filter(bool))
def test_whole_text(small_ranks, text: str) -> None:
    """A walk to the end marks every start and nothing else."""
    found, decided = walk(small_ranks, text.encode())
    assert found == naive.boundaries(text)[:-1]
    assert decided == len(text.encode())


@given(texts.well_formed.filter(bool), st.data())
def test_any_start_continues_the_cut(small_ranks, text: str, data: st.DataObject) -> None:
    """From any start on, with any number of blocks: bits are starts of the whole text, none missing up to the last."""
    expected = naive.boundaries(text)[:-1]
    base = data.draw(st.sampled_from(expected))
    most = -(-(len(text.encode()) - base) // BLOCK)
    found, decided = walk(small_ranks, text.encode(), base, blocks=data.draw(st.integers(1, most)))
    assert found[0] == base
    assert found == [start for start in expected if base <= start <= found[-1]]
    assert found[-1] < decided <= len(text.encode())


@given(texts.well_formed.filter(bool), st.data())
def test_text_ends_at_stop(small_ranks, text: str, data: st.DataObject) -> None:
    """What stands at and after ``stop``, an added token, has no say in the cut before it."""
    kept = text[: data.draw(st.integers(1, len(text)))]
    found, decided = walk(small_ranks, text.encode(), stop=len(kept.encode()))
    assert found == naive.boundaries(kept)[:-1]
    assert decided == len(kept.encode())


@pytest.mark.parametrize("left", EDGES)
def test_block_edges(small_ranks, left: str) -> None:
    """Each class on each side of the edge between two blocks, and characters and contractions across it."""
    for right, before in itertools.product(EDGES, range(BLOCK - 7, BLOCK + 2)):
        text = filler(before) + left + right + "'t b"
        assert walk(small_ranks, text.encode())[0] == naive.boundaries(text)[:-1], (left, right, before)


@pytest.mark.parametrize("left", EDGES)
def test_chunk_edges(small_ranks, left: str) -> None:
    """The same at the edge of a chunk, where a walk ends and the next begins at the last start."""
    for right, before in itertools.product(EDGES, range(dtypes.CHUNK_BYTES - 8, dtypes.CHUNK_BYTES + 2)):
        end = left + right + "  'll " + right + left
        found = small_ranks.pretokenize(filler(before) + end)
        tail = before - 6
        expected = [tail + edge for edge in naive.boundaries(filler(6) + end)]
        assert found[found >= tail].tolist() == expected, (left, right, before)


@pytest.mark.parametrize(
    "length", [1, 2, 7, 8, 15, 16, 17, 63, 64, 65, 66, 127, 128, 129, 4095, 4096, 4097, 8191, 8193]
)
def test_lengths(small_ranks, length: int) -> None:
    """Texts of one class, as long as a load, a key, a block, a page or a chunk, and what may stand at their end."""
    for body, end in itertools.product(["a", "1", " ", "\n", ".", "'"], ["", " ", "x", "'", "\n", "!"]):
        text = body * (length - len(end)) + end if length >= len(end) else body
        assert small_ranks.pretokenize(text).tolist() == naive.boundaries(text), (body, end)


@pytest.mark.parametrize("character", ["a", " ", "\u3000", "\u00a0", "中", "½", "😀", "."])
@pytest.mark.parametrize("bytes_long", [dtypes.CHUNK_BYTES + n for n in (-2, 0, 1, 66)] + [5 * dtypes.CHUNK_BYTES + 3])
def test_pretokens_longer_than_a_chunk(small_ranks, character: str, bytes_long: int) -> None:
    """One pretoken of more bytes than a walk covers is found whole, whatever stands before and after it."""
    run = character * (bytes_long // len(character.encode()))
    for text in (run, "x " + run, run + "x", run + " y\n" + run, " " + run + "'s", run + "1" + run + " "):
        assert small_ranks.pretokenize(text).tolist() == naive.boundaries(text)


def test_random_text_of_every_script(small_ranks) -> None:
    """Generated text over several chunks."""
    rng = random.Random(2)
    for _ in range(12):
        text = texts.random_text(rng, 12_000)
        assert small_ranks.pretokenize(text).tolist() == naive.boundaries(text)


GUARDED = """
    import ctypes, mmap, random
    import numpy as np
    import small, texts
    from numbatok.kernels import dtypes

    PAGE = mmap.PAGESIZE
    INSIDE = 4 * PAGE
    libc = ctypes.CDLL(None, use_errno=True)
    region = mmap.mmap(-1, INSIDE + 2 * PAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(region))
    memory = np.frombuffer(region, np.uint8)[PAGE : PAGE + INSIDE]
    for guard in (address, address + PAGE + INSIDE):
        if libc.mprotect(ctypes.c_void_p(guard), PAGE, mmap.PROT_READ & 0) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")

    tokenizer = small.by_ranks()
    rng = random.Random(3)
    checked = 0
    for length in [*range(1, 200), *(edge + n for edge in (PAGE, dtypes.CHUNK_BYTES, INSIDE) for n in (-65, -1, 0))]:
        for text in ("a" * length, " " * length, "'" * length, texts.random_text(rng, length) + "\\u3000\\u00a0"):
            content = text.encode()[:length].decode("utf-8", "ignore").encode()
            if not content:
                continue
            expected = tokenizer.encode(content)
            memory[-len(content):] = np.frombuffer(content, np.uint8)
            at_end = memory[-len(content):]
            assert np.array_equal(tokenizer.encode(at_end), expected), length
            assert tokenizer.count(at_end) == len(expected), length
            assert np.array_equal(tokenizer.pretokenize(at_end), tokenizer.pretokenize(content)), length
            memory[: len(content)] = np.frombuffer(content, np.uint8)
            assert np.array_equal(tokenizer.encode(memory[: len(content)]), expected), length
            checked += 1
    print(checked)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="guard pages are made with Linux's mprotect")
def test_nothing_outside_the_text_is_read() -> None:
    """Text between two pages that may not be read, at the last and the first bytes: no fault, and the same ids.

    In a process of its own, so that a fault is a failed test and not the end of the run.
    """
    assert int(output_of(GUARDED)) > 800

"""Encoding, counting and decoding inside kernels of one's own."""

import dataclasses
import random

import numba
import numpy as np
import pytest

import numbatok
import small
import texts
from numbatok.decoders import ByteFallback, Fuse
from numbatok.kernels import count_in, decode_into, dtypes, encode_into, inside
from numbatok.normalizers.edits import Prepend
from support import output_of


@numba.njit
def encode_one(view, scratch, text, start, stop, out, at):
    return encode_into(view, scratch, text, start, stop, out, at)


@numba.njit
def count_one(view, scratch, text, start, stop):
    return count_in(view, scratch, text, start, stop)


@numba.njit
def decode_one(view, scratch, ids, start, stop, out, at):
    return decode_into(view, scratch, ids, start, stop, out, at)


@numba.njit(parallel=True)
def encode_all(view, scratches, text, offsets, out, counts):
    for worker in numba.prange(len(scratches)):
        for i in range(worker, len(offsets) - 1, len(scratches)):
            first, last = offsets[i], offsets[i + 1]
            status, end = encode_into(view, scratches[worker], text, first, last, out, first + i * inside.ROOM)
            counts[i] = end - first - i * inside.ROOM if status == 0 else status


def documents(seed: int) -> list[str]:
    rng = random.Random(seed)
    made = [texts.random_text(rng, rng.choice([0, 1, 20, 500, 9000])) for _ in range(60)]
    return [*made, "", "<|endoftext|>", "a<|endoftext|><|endoftext|>b", "z" * 3000]


@pytest.mark.parametrize("make", [small.by_ranks, small.by_merges])
def test_documents_of_a_buffer_in_parallel(make) -> None:
    """The loop that the documentation shows: a byte buffer and offsets, one scratch a thread."""
    tokenizer = make()
    given = documents(1)
    contents = [text.encode() for text in given]
    text = np.frombuffer(b"".join(contents), np.uint8)
    offsets = np.cumsum([0, *map(len, contents)])
    scratches = tuple(tokenizer.new_scratch(cache_bytes=1 << 18) for _ in range(3))
    out, counts = np.zeros(len(text) + inside.ROOM * len(offsets), np.uint32), np.zeros(len(given), np.int64)
    for _ in range(2):
        encode_all(tokenizer.kernel_view(), scratches, text, offsets, out, counts)
        for i, document in enumerate(given):
            begin = offsets[i] + i * inside.ROOM
            assert np.array_equal(out[begin : begin + counts[i]], tokenizer.encode(document)), i


def test_one_by_one(gpt2: numbatok.Tokenizer) -> None:
    """Places in the middle of arrays, counts, and the way back."""
    view, scratch = gpt2.kernel_view(), gpt2.new_scratch()
    for document in documents(2):
        text = np.frombuffer(b"xx" + document.encode() + b"yy", np.uint8)
        wanted = gpt2.encode(document)
        out = np.full(len(text) + 10, 7, np.uint32)
        assert encode_one(view, scratch, text, 2, len(text) - 2, out, 3) == (inside.DONE, 3 + len(wanted))
        assert np.array_equal(out[3 : 3 + len(wanted)], wanted)
        assert (out[:3] == 7).all()
        assert count_one(view, scratch, text, 2, len(text) - 2) == (inside.DONE, len(wanted))
        back = np.full(len(text) + 5, 9, np.uint8)
        assert decode_one(view, scratch, out, 3, 3 + len(wanted), back, 1) == (inside.DONE, len(text) - 3)
        assert back[1 : len(text) - 3].tobytes() == document.encode()
        assert back[0] == 9


def test_what_is_in_the_way(gpt2: numbatok.Tokenizer) -> None:
    """Too little room, a pretoken that is too long, unknown ids, places outside: a status, and nothing else touched."""
    view, scratch = gpt2.kernel_view(), gpt2.new_scratch(longest=1000)
    text = np.frombuffer(b"Hello world, this is it" + b"q" * 5000, np.uint8)
    out = np.full(40, 7, np.uint32)
    assert encode_one(view, scratch, text, 0, 23, out[:3], 0) == (inside.NO_ROOM, 0)
    assert (out[3:] == 7).all()
    room = np.zeros(10_000, np.uint32)
    assert encode_one(view, scratch, text, 0, len(text), room, 5)[0] == inside.TOO_LONG
    assert count_one(view, scratch, text, 0, len(text))[0] == inside.TOO_LONG
    assert encode_one(view, scratch, text, 0, 5, room, 0) == (inside.DONE, 1)
    for start, stop, at in ((-1, 5, 0), (0, len(text) + 1, 0), (5, 4, 0), (0, 5, -1), (0, 5, 10_001)):
        assert encode_one(view, scratch, text, start, stop, room, at) == (inside.NO_ROOM, at)
    back = np.zeros(100, np.uint8)
    ids = np.array([15496, 995, 60_000, 11], np.uint32)
    assert decode_one(view, scratch, ids, 0, 4, back, 0) == (inside.UNKNOWN_ID, 2)
    assert decode_one(view, scratch, ids, 0, 2, back[:10], 0) == (inside.NO_ROOM, 0)
    assert decode_one(view, scratch, ids, 0, 2, back[:11], 0) == (inside.DONE, 11)
    assert decode_one(view, scratch, ids, 1, 1, back, 4) == (inside.DONE, 4)
    stale = view.copy()
    stale[-1] += 1
    assert encode_one(stale, scratch, text, 0, 5, room, 0) == (inside.STALE, 0)
    assert count_one(stale, scratch, text, 0, 5) == (inside.STALE, 0)
    assert decode_one(stale, scratch, ids, 0, 1, back, 0) == (inside.STALE, 0)


def test_wrong_arrays_and_places(gpt2: numbatok.Tokenizer) -> None:
    """Outside of a kernel, and with arrays of other types or layouts: an error, not a crash; another's scratch too."""
    view, scratch = gpt2.kernel_view(), gpt2.new_scratch()
    text, out = np.frombuffer(b"Hello world", np.uint8), np.zeros(100, np.uint32)
    for call in (
        lambda: encode_into(view, scratch, text, 0, 5, out, 0),
        lambda: count_in(view, scratch, text, 0, 5),
        lambda: decode_into(view, scratch, out, 0, 5, np.zeros(9, np.uint8), 0),
    ):
        with pytest.raises(TypeError, match=r"for numba\.njit functions"):
            call()
    for arrays, name in (
        ((view, scratch, text, 0, 5, np.zeros(100, np.uint16), 0), "out must be a writable"),
        ((view, scratch, text, 0, 5, np.zeros(100, np.int64), 0), "out must be a writable"),
        ((view, scratch, text, 0, 5, np.zeros(200, np.uint32)[::2], 0), "out must be a writable"),
        ((view, scratch, text[::2], 0, 5, out, 0), "text must be a contiguous"),
        ((view, scratch, text.astype(np.int8), 0, 5, out, 0), "text must be a contiguous"),
        ((view.astype(np.uint64), scratch, text, 0, 5, out, 0), "view must be a contiguous"),
    ):
        with pytest.raises(numba.core.errors.TypingError, match=name):
            encode_one(*arrays)
    with pytest.raises(numba.core.errors.TypingError, match="ids must be a contiguous"):
        decode_one(view, scratch, np.zeros(3, np.int64), 0, 3, np.zeros(9, np.uint8), 0)
    other = gpt2.add_special_tokens(["<|user|>"])
    assert encode_one(other.kernel_view(), scratch, text, 0, 5, out, 0) == (inside.OTHER_SCRATCH, 0)
    assert encode_one(other.kernel_view(), other.new_scratch(), text, 0, 5, out, 0) == (inside.DONE, 1)


def test_a_cache_that_is_full(gpt2: numbatok.Tokenizer) -> None:
    """It begins anew, and the ids stay right."""
    view, scratch = gpt2.kernel_view(), gpt2.new_scratch(cache_bytes=1 << 18)
    words = np.random.default_rng(1).integers(97, 123, (60_000, 9)).astype(np.uint8)
    words[:, 8] = 32
    text = words.reshape(-1)
    out = np.zeros(len(text) + inside.ROOM, np.uint32)
    status, count = encode_one(view, scratch, text, 0, len(text), out, 0)
    assert status == inside.DONE
    assert np.array_equal(out[:count], gpt2.encode(text))


def test_what_has_no_view(gpt2: numbatok.Tokenizer) -> None:
    """Text that is normalized first is refused, and so are sizes that make no scratch."""
    content = small.tokenizer_json()
    import json

    content["normalizer"] = {"type": "Lowercase"}
    with pytest.raises(ValueError, match="normalizes text"):
        numbatok.Tokenizer.from_str(json.dumps(content)).kernel_view()
    with pytest.raises(ValueError, match="cache_bytes must be from"):
        gpt2.new_scratch(cache_bytes=10)
    with pytest.raises(TypeError, match="longest must be an int"):
        gpt2.new_scratch(longest=1e6)
    parts = dataclasses.replace(gpt2._parts, normalizer=Prepend("a"), decoder=(ByteFallback(), Fuse()))
    with pytest.raises(ValueError, match="it normalizes text, and decodes ids as strings"):
        numbatok.Tokenizer(parts).kernel_view()


def test_seeds_of_dropout(gpt2: numbatok.Tokenizer) -> None:
    """Scratches with one seed give the same ids; others do not."""
    dropping = gpt2.with_dropout(0.5)
    text = np.frombuffer(b"pseudopseudohypoparathyroidism " * 20, np.uint8)
    made = []
    for seed in (1, 1, 2, None, None):
        out = np.zeros(len(text) + inside.ROOM, np.uint32)
        scratch = dropping.new_scratch(seed=seed)
        status, count = encode_one(dropping.kernel_view(), scratch, text, 0, len(text), out, 0)
        assert status == inside.DONE
        assert gpt2.decode_bytes(out[:count]) == text.tobytes()
        made.append(out[:count].tolist())
    assert made[0] == made[1]
    assert len({tuple(ids) for ids in made}) == 4
    large = [
        dropping.new_scratch(seed=seed)[dtypes.WORK_RANDOM] for seed in (1 << 50, (1 << 50) + 1, np.uint64(1 << 50))
    ]
    assert large[0] == large[2] != large[1]
    with pytest.raises(ValueError, match="seed must be at least 0"):
        gpt2.new_scratch(seed=-1)


CACHED = """
    import sys, numba, numpy as np
    sys.path.insert(0, sys.argv[1])
    import mine, numbatok

    tokenizer = numbatok.get_encoding("gpt2")
    text = np.frombuffer(b"Hello world", np.uint8)
    out = np.zeros(100, np.uint32)
    print(mine.encode(tokenizer.kernel_view(), tokenizer.new_scratch(), text, out), out[:2])
    print(sum(mine.encode.stats.cache_hits.values()))
"""


def test_a_cached_kernel(tmp_path) -> None:
    """Numba keeps a function that calls these as any other."""
    (tmp_path / "mine.py").write_text(
        "import numba\nfrom numbatok.kernels import encode_into\n\n\n@numba.njit(cache=True)\n"
        "def encode(view, scratch, text, out):\n    return encode_into(view, scratch, text, 0, len(text), out, 0)\n"
    )
    for hits in ("0", "1"):
        told = output_of(CACHED, str(tmp_path), NUMBA_CACHE_DIR=None).splitlines()
        assert told[0] == "(0, 2) [15496   995]"
        assert told[1] == hits

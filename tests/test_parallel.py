"""Parallel calls: the same ids for any number of threads, wherever documents are cut and whichever worker does what."""

import asyncio
import functools
import json
import os
import random
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import numbatok
import small
import texts
from numbatok import AddedToken, Tokenizer, parallel, utf8
from numbatok.kernels import dtypes
from numbatok.patterns import known
from numbatok.patterns.rules import Split
from numbatok.scratch import Scratch
from support import output_of

THREADS = (2, 3, 5, 8)
SIZES = [(3, 0, 40), (3, 5, 1 << 20), (16, 64, 500), (64, 4096, 1 << 20)]

#: Rules with more than one step for the table walker, whose later steps hide where the first one stands.
STEPS = {
    "numbers in threes, then in twos": (Split(r"\p{N}{1,3}"), Split(r"\p{N}{2}"), Split(r"\w+| ")),
    "dropped": (Split(r"\s+", "removed"), Split(r"[aeiou]", "merged_with_next")),
    "dropped inside": (Split(r"[^ ]{1,7}"), Split(r"[a-m]+", "removed", invert=True)),
    "overrun": (Split(r"a*b|a|.{5}", "isolated"),),
    "contiguous": (Split(r"[.,-]", "contiguous"), Split(r"..")),
}


@contextmanager
def tasks_of(least: int, warm_up: int, wave: int) -> Iterator[None]:
    """Let every call be parallel, with tasks of ``least`` bytes, seams guessed from so far before, and small waves."""
    names = ("LEAST_TASK", "WARM_UP", "WAVE_BYTES", "PARALLEL_BYTES")
    before = {name: getattr(parallel, name) for name in names}
    for name, value in zip(names, (least, warm_up, wave, 0), strict=True):
        setattr(parallel, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(parallel, name, value)


def with_rule(rule: tuple[Split, ...]) -> Tokenizer:
    """The small vocabulary cut by a rule."""
    return Tokenizer(replace(small.by_ranks()._parts, rule=rule))


def check(tokenizer: Tokenizer, documents: list[str], sizes: tuple[int, int, int], threads=THREADS) -> None:
    """Everything that can be parallel against one thread."""
    alone = tokenizer.encode_batch(documents, num_threads=1)
    cuts = [tokenizer.pretokenize(document, num_threads=1) for document in documents]
    with tasks_of(*sizes):
        for number in threads:
            batch = tokenizer.encode_batch(documents, num_threads=number)
            assert batch.tolist() == alone.tolist(), number
            assert tokenizer.count_batch(documents, num_threads=number).tolist() == alone.lengths.tolist()
            assert tokenizer.decode_batch(batch) == tokenizer.decode_batch(alone)
        for document, ids, pieces in zip(documents, alone, cuts, strict=True):
            number = random.Random(len(document)).choice(threads)
            assert np.array_equal(tokenizer.encode(document, num_threads=number), ids)
            assert tokenizer.count(document, num_threads=number) == len(ids)
            assert np.array_equal(tokenizer.pretokenize(document, num_threads=number), pieces)


def seam_texts(rng: random.Random) -> list[str]:
    """Documents whose cuts fall into runs of every kind; empty ones between."""
    runs = [
        "1" * 300,
        "12 345 6789 " * 30,
        "a" * 400,
        " " * 300,
        "\r\n" * 150,
        " \n" * 150,
        "'s't're've'm'll'd" * 20,
        "e\u0301" * 100,
        "\u0301" * 120,
        "中文" * 120,
        "ab1中 \n.'ſ" * 30,
        "<|endoftext|>" * 30,
        "x <|endoftext|> " * 30,
        "AbCdEF" * 50,
        "=" * 500,
        "👩\u200d🚀" * 30,
        "<|endoftext|" * 20,
    ]
    made = ["", *runs, "", *(texts.random_text(rng, rng.choice([1, 50, 700])) for _ in range(8)), ""]
    made += ["".join(rng.choices(runs, k=3)), rng.choice(runs) + "b " + rng.choice(runs)]
    return made


@pytest.mark.parametrize("name", known.WALKS)
def test_every_walk(name: str) -> None:
    """Each mask walker, with cuts a few bytes apart and hardly any text before a guess."""
    tokenizer = with_rule(known.WALKS[name].rules[0])
    documents = seam_texts(random.Random(name))
    for sizes in SIZES[1:3]:
        check(tokenizer, documents, sizes, threads=(3,))


@pytest.mark.parametrize("name", STEPS)
def test_steps_of_the_table_walker(name: str) -> None:
    """Rules of several steps: a scan's place is one of the first step, not any start."""
    tokenizer = with_rule(STEPS[name])
    documents = seam_texts(random.Random(name))
    for sizes in SIZES:
        check(tokenizer, documents, sizes, threads=(2, 5))


@pytest.mark.parametrize("make", [small.by_ranks, small.by_merges])
def test_any_number_of_threads(make) -> None:
    """More threads than cores, and than tasks, too."""
    documents = seam_texts(random.Random(3))
    for sizes in SIZES:
        check(make(), documents, sizes)


@given(
    st.lists(texts.well_formed, max_size=4),
    st.sampled_from(THREADS),
    st.integers(1, 40),
    st.integers(0, 40),
    st.integers(1, 300),
)
def test_any_documents(documents: list[str], threads: int, least: int, warm_up: int, wave: int) -> None:
    """Generated documents, cut anywhere."""
    check(_small(), documents, (least, warm_up, wave), threads=(threads,))


@functools.cache
def _small() -> Tokenizer:
    return small.by_ranks()


def test_added_tokens_at_seams() -> None:
    """Tokens with all flags, one inside another, across every place where the text might be cut."""
    flags = [{}, {"lstrip": True}, {"rstrip": True}, {"lstrip": True, "rstrip": True}, {"single_word": True}]
    tokens = [
        AddedToken(f"<m{'m' * number}>", 700 + number, special=number % 2 == 0, normalized=number % 3 == 0, **flag)
        for number, flag in enumerate(flags)
    ]
    tokenizer = small.by_ranks(*tokens, AddedToken("<m><mm>", 720), AddedToken("\n", 721, normalized=True))
    rng = random.Random(9)
    pieces = [*(token.content for token in tokenizer.added_tokens), " ", "  ", "\n", "a", "word", "<m", "12", "é"]
    documents = ["".join(rng.choices(pieces, k=rng.randint(0, 300))) for _ in range(12)]
    for sizes in SIZES:
        check(tokenizer, documents, sizes, threads=(2, 5))


def test_added_tokens_without_flags_at_seams() -> None:
    """Tokens that overlap each other, that hold another, that are longer than a task, in text that is full of them."""
    contents = ["ab", "bc", "abcabc", "c\n", "\n\n", "é中", "<|" + 70 * "x" + "|>", "x|", " a"]
    tokens = [AddedToken(content, 700 + n, normalized=n % 3 == 0) for n, content in enumerate(contents)]
    tokenizer = small.by_ranks(*tokens)
    rng = random.Random(10)
    pieces = [*contents, "a", "b", "c", " ", "\n", "é", "中", "x", "<|", "12", "word"]
    documents = ["".join(rng.choices(pieces, k=rng.randint(0, 200))) for _ in range(12)]
    documents.append("abc" * 200)
    documents.append("word " * 60 + contents[6] + " word" * 60)
    allowed = {"abcabc", "c\n", contents[6]}
    for sizes in SIZES:
        check(tokenizer, documents, sizes, threads=(2, 5))
        for document in documents:
            one = tokenizer.encode(document, allowed_special=allowed, num_threads=1)
            with tasks_of(*sizes):
                assert np.array_equal(tokenizer.encode(document, allowed_special=allowed, num_threads=3), one)
                for refused in ({"bc"}, {"abcabc"}, {contents[6]}):
                    found = []
                    for threads in (1, 3):
                        try:
                            tokenizer.encode(document, disallowed_special=refused, num_threads=threads)
                            found.append("")
                        except ValueError as error:
                            found.append(str(error))
                    assert found[0] == found[1]


def test_templates_pairs_and_normalizers() -> None:
    """Special tokens of templates, type ids, and text that is normalized first."""
    content = small.tokenizer_json()
    content["normalizer"] = {"type": "NFC"}
    content["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "E", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [
            {"Sequence": {"id": "A", "type_id": 0}},
            {"SpecialToken": {"id": "E", "type_id": 1}},
            {"Sequence": {"id": "B", "type_id": 1}},
            {"Sequence": {"id": "A", "type_id": 2}},
        ],
        "special_tokens": {"E": {"id": "E", "ids": [300, 301], "tokens": ["a", "b"]}},
    }
    tokenizer = Tokenizer.from_str(json.dumps(content))
    documents = seam_texts(random.Random(4))
    pairs = documents[::-1]
    alone = tokenizer.encode_batch(documents, pairs, num_threads=1)
    for sizes in SIZES:
        check(tokenizer, documents, sizes, threads=(2, 5))
        with tasks_of(*sizes):
            together = tokenizer.encode_batch(documents, pairs, num_threads=3)
        assert together == alone
        assert np.array_equal(together.type_ids, alone.type_ids)


def test_ten_thousand_documents(gpt2: Tokenizer) -> None:
    """Short documents of every kind, empty and special ones among them, with and without templates."""
    rng = random.Random(12)
    kinds = ["", "<|endoftext|>", "中文字", "word", " 's", "a<|endoftext|>b"]
    documents = [rng.choice(kinds) if rng.random() < 0.3 else texts.random_text(rng, 40) for _ in range(10_000)]
    for special in (False, True):
        alone = gpt2.encode_batch(documents, add_special_tokens=special, num_threads=1)
        for threads in THREADS:
            together = gpt2.encode_batch(documents, add_special_tokens=special, num_threads=threads)
            assert together == alone
            assert np.array_equal(together.offsets, alone.offsets)


def test_one_endless_run(gpt2: Tokenizer) -> None:
    """Where scans from guesses never meet the text's own, that goes on alone, in linear time."""
    for text in ("1" * 300_000, "a" * 300_000, "12" * 99_999 + " x", "\n" * 300_000):
        assert np.array_equal(gpt2.encode(text, num_threads=2), gpt2.encode(text, num_threads=1))
    llama_like = with_rule(known.WALKS["cl100k"].rules[0])
    text = "1234567" * 100_000
    assert np.array_equal(llama_like.encode(text, num_threads=2), llama_like.encode(text, num_threads=1))


def test_disallowed_tokens_are_named_as_by_one_thread() -> None:
    """The first in the order of the texts, whichever worker finds one first."""
    tokenizer = small.by_ranks()
    rng = random.Random(5)
    documents = [texts.random_text(rng, 200).replace("<", "") for _ in range(60)]
    documents[17] = "abc" * 50 + "<|endoftext|>" + "x" * 100
    documents[44] = "é<|endoftext|>"
    for sizes in SIZES:
        with tasks_of(*sizes):
            for threads in (1, 2, 5):
                with pytest.raises(ValueError, match=r"character 150 of the text at index 17 of the batch"):
                    tokenizer.encode_batch(documents, disallowed_special="all", allowed_special=(), num_threads=threads)
                with pytest.raises(ValueError, match=r"character 150\b"):
                    tokenizer.encode(documents[17], disallowed_special="all", allowed_special=(), num_threads=threads)
            assert tokenizer.encode("Hello", num_threads=2).tolist() == tokenizer.encode("Hello").tolist()


def test_out_and_dtype(tmp_path) -> None:
    """Ids into the caller's array, a memory map too, and as uint16."""
    tokenizer = small.by_ranks()
    documents = seam_texts(random.Random(6))
    alone = tokenizer.encode_batch(documents, num_threads=1)
    total = len(alone.ids)
    for sizes in SIZES:
        with tasks_of(*sizes):
            for threads in (1, 3):
                narrow = tokenizer.encode_batch(documents, dtype=np.uint16, num_threads=threads)
                assert narrow.ids.dtype == np.uint16
                assert narrow == alone
                assert tokenizer.decode_batch(narrow) == tokenizer.decode_batch(alone)
                for dtype in (np.uint16, np.uint32):
                    out = np.memmap(tmp_path / "ids", dtype, "w+", shape=(total + 5,))
                    batch = tokenizer.encode_batch(documents, out=out, num_threads=threads)
                    assert np.shares_memory(batch.ids, out)
                    assert batch == alone
                with pytest.raises(ValueError, match=f"room for {total - 1} ids, but the texts have {total}"):
                    tokenizer.encode_batch(documents, out=np.empty(total - 1, np.uint32), num_threads=threads)
                exact = tokenizer.encode_batch(documents, out=np.empty(total, np.uint32), num_threads=threads)
                assert exact == alone


def test_documents_by_groups() -> None:
    """Ids that do not stay where they are made: of documents larger and smaller than a group, one id a byte or less."""
    tokenizer = small.by_ranks()
    rng = random.Random(7)
    dense = bytes(rng.choices(range(1, 32), k=5 * dtypes.GROUP_TEXT)).decode()
    documents = ["", dense, *(texts.random_text(rng, 50) for _ in range(2000)), "", dense[:100], "a" * 100_000, ""]
    alone = tokenizer.encode_batch(documents, num_threads=1)
    assert len(alone.ids) > sum(map(len, documents)) // 2  # more than there is room for at first
    for dtype in (np.uint16, np.uint32):
        assert tokenizer.encode_batch(documents, dtype=dtype, num_threads=1) == alone
        out = np.zeros(len(alone.ids) + 1, dtype)
        assert tokenizer.encode_batch(documents, out=out, num_threads=1) == alone
        assert out[-1] == 0
        out[:] = 0
        with pytest.raises(ValueError, match=f"room for 1000 ids, but the texts have {len(alone.ids)}"):
            tokenizer.encode_batch(documents, out=out[:1000], num_threads=1)
        assert not out[1000:].any()
    assert tokenizer.encode_batch([], dtype=np.uint16, num_threads=1).ids.dtype == np.uint16


def test_wrong_out_and_dtype(gpt2: Tokenizer) -> None:
    """What can't take ids is refused before anything is encoded."""
    with pytest.raises(TypeError, match="out must be a NumPy array"):
        gpt2.encode_batch(["a"], out=[0, 0])
    with pytest.raises(ValueError, match=r"contiguous and writeable array, not one of shape \(2, 2\)"):
        gpt2.encode_batch(["a"], out=np.zeros((2, 2), np.uint32))
    with pytest.raises(ValueError, match="contiguous and writeable array, not one with gaps"):
        gpt2.encode_batch(["a"], out=np.zeros(8, np.uint32)[::2])
    with pytest.raises(ValueError, match="uint32 or uint16, not of int64"):
        gpt2.encode_batch(["a"], out=np.zeros(8, np.int64))
    with pytest.raises(ValueError, match="uint32 or uint16, not of float64"):
        gpt2.encode_batch(["a"], dtype=float)
    with pytest.raises(ValueError, match="dtype is uint16, but out is of uint32"):
        gpt2.encode_batch(["a"], dtype=np.uint16, out=np.zeros(8, np.uint32))
    with pytest.raises(ValueError, match="uint16 holds ids below 65536"):
        numbatok.get_encoding("cl100k_base").encode_batch(["a"], dtype=np.uint16)


@pytest.mark.parametrize("number", [0, -1, True, 1.5, "2"])
def test_wrong_numbers_of_threads(gpt2: Tokenizer, number: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """A number of threads is an integer of at least 1, by whatever way it comes."""
    kind = ValueError if isinstance(number, int) and not isinstance(number, bool) else TypeError
    for call in (gpt2.encode, gpt2.count, gpt2.pretokenize, gpt2.encode_with_offsets):
        with pytest.raises(kind, match="num_threads must be"):
            call("a", num_threads=number)
    with pytest.raises(kind, match="num_threads must be"):
        gpt2.encode_batch(["a"], num_threads=number)
    with pytest.raises(kind, match="num_threads must be"):
        gpt2.decode_batch([[1]], num_threads=number)
    with pytest.raises(kind, match="number must be"):
        numbatok.set_num_threads(number)
    monkeypatch.setenv("NUMBATOK_NUM_THREADS", "many")
    with pytest.raises(ValueError, match="NUMBATOK_NUM_THREADS must be an integer of at least 1, not 'many'"):
        gpt2.encode_batch(["a"] * 100)  # of a few texts the number does not matter


def test_where_the_number_of_threads_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the environment, over it from set_num_threads."""
    monkeypatch.delenv("NUMBATOK_NUM_THREADS", raising=False)
    default = numbatok.get_num_threads()
    assert default >= 1
    monkeypatch.setenv("NUMBATOK_NUM_THREADS", "7")
    assert numbatok.get_num_threads() == 7
    try:
        numbatok.set_num_threads(3)
        assert numbatok.get_num_threads() == 3
    finally:
        numbatok.set_num_threads(None)
    assert numbatok.get_num_threads() == 7
    assert len(numbatok.get_encoding("gpt2").encode("Hello world", num_threads=np.int64(2))) == 2


def test_plan_covers_every_document() -> None:
    """Tasks are in order and leave nothing out, whatever the sizes."""
    rng = np.random.default_rng(1)
    for _ in range(300):
        count = int(rng.integers(0, 40))
        lengths = rng.choice([-3, 0, 1, 20, 300, 5000], count).astype(np.int64)
        tries = rng.choice([0, 1, 2], count).astype(np.int64)
        if rng.integers(4) == 0:
            tries = np.full(1, 2, np.int64)  # one for all
        with tasks_of(int(rng.integers(1, 200)), 0, int(rng.integers(1, 3000))):
            total = int(np.maximum(lengths, 0).sum())
            rows, shares = parallel.plan(lengths, tries, int(rng.integers(1, 9)), int(rng.integers(1, 400)), total)
        assert shares[0] == 0
        assert shares[-1] == len(rows)
        assert shares == sorted(shares)
        following, reached = 0, 0  # the next document, and the next byte of the last one
        for row in rows.tolist():
            first, number, begin, until = row[: dtypes.TASK_UNTIL + 1]
            assert set(np.broadcast_to(tries, count)[first : first + number]) == {row[dtypes.TASK_TRIES_OFF]}
            if begin == dtypes.AT_BEGINNING:
                assert first == following
                assert reached == 0
                following += number
                continue
            assert number == 1
            assert first == following
            assert begin == reached
            reached = until
            if until == dtypes.NO_UNTIL:
                following, reached = following + 1, 0
        assert following == count


CALLERS = """
    import random, sys, threading
    import numpy as np
    import numba
    import small, texts
    from numbatok import parallel

    parallel.PARALLEL_BYTES = 1000
    parallel.LEAST_TASK = 500
    tokenizer = small.by_ranks()
    rng = random.Random(2)
    documents = [texts.random_text(rng, rng.choice([10, 200, 20_000])) for _ in range(30)]
    long = texts.random_text(rng, 200_000)
    batch, ids = tokenizer.encode_batch(documents, num_threads=1), tokenizer.encode(long, num_threads=1)
    tokenizer.encode(long, num_threads=4)
    print(numba.threading_layer())
    failures = []

    def work():
        for _ in range(15):
            if tokenizer.encode_batch(documents, num_threads=4) != batch:
                failures.append("batch")
            if not np.array_equal(tokenizer.encode(long, num_threads=3), ids):
                failures.append("long")

    threads = [threading.Thread(target=work) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failures, failures
    print(len(tokenizer._engine.scratches.idle) <= tokenizer._engine.scratches.idle.maxlen)
"""


@pytest.mark.parametrize("layer", ["workqueue", "omp", "tbb"])
def test_threading_layers(layer: str) -> None:
    """Eight threads that call parallel work at once, on each layer: workqueue aborts where two enter."""
    try:
        __import__("numba.np.ufunc." + {"omp": "omppool", "tbb": "tbbpool"}.get(layer, layer))
    except ImportError:
        pytest.skip(f"Numba has no layer {layer} here")
    assert output_of(CALLERS, NUMBA_THREADING_LAYER=layer, NUMBA_NUM_THREADS="4").split() == [layer, "True"]


def test_an_output_that_has_grown_is_kept_for_the_next_wave(monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker stops twice for want of the same room: each stop is one of all workers."""
    mend, stops = Scratch.mend, []

    def noted(scratch: Scratch, status: int, *arguments: object) -> None:
        if status == dtypes.NEED_OUTPUT:
            stops.append((scratch.address, len(scratch.output)))
        mend(scratch, status, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Scratch, "mend", noted)
    rng = random.Random(8)
    words = ["".join(chr(rng.randrange(0x5000, 0x9000)) for _ in range(4)) for _ in range(100)]  # an id for each byte
    text = " ".join(rng.choices(words, k=300_000))
    tokenizer = small.by_ranks()
    alone = tokenizer.encode(text, num_threads=1)
    stops.clear()
    with tasks_of(1 << 14, 1 << 12, 1 << 18):
        assert np.array_equal(tokenizer.encode(text, num_threads=2), alone)
    assert len(stops) == len(set(stops)) > 0


def test_interrupt_in_mid_call(gpt2: Tokenizer) -> None:
    """Ctrl-C ends a long call within a second or so, and the tokenizer is as good as before."""
    code = """
        import signal, sys, threading, time
        import numpy as np
        import numbatok

        tokenizer = numbatok.get_encoding("gpt2")
        rng = np.random.default_rng(0)
        text = rng.integers(97, 123, 60_000_000, np.uint8).astype(np.uint8)
        text[rng.integers(0, len(text), len(text) // 9)] = 32  # words that are hardly ever seen twice
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for threads in (1, 2):
            tokenizer.encode(text[:1_000_000], num_threads=threads)
            threading.Timer(0.5, signal.raise_signal, [signal.SIGINT]).start()
            started = time.perf_counter()
            try:
                tokenizer.encode(text, num_threads=threads)
                print("not interrupted")
            except KeyboardInterrupt:
                print("late" if time.perf_counter() - started > 5 else "interrupted")
            assert tokenizer.encode("Hello world").tolist() == [15496, 995]
            a, b = (tokenizer.encode(text[:1_000_000], num_threads=number) for number in (1, 2))
            assert np.array_equal(a, b)
    """
    assert output_of(code).split() == ["interrupted"] * 2


def test_daemon_threads_at_exit() -> None:
    """The interpreter may end while a thread is in a parallel call."""
    code = """
        import threading, time
        import small, texts, random
        from numbatok import parallel
        parallel.PARALLEL_BYTES = 1000

        tokenizer = small.by_ranks()
        text = texts.random_text(random.Random(1), 300_000)
        tokenizer.encode(text, num_threads=2)
        def work():
            while True:
                tokenizer.encode(text, num_threads=2)
        for _ in range(3):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(0.3)
        print("end")
    """
    assert output_of(code) == "end\n"


def test_the_guard_is_free_after_an_error(gpt2: Tokenizer) -> None:
    """A call that fails lets the next one be parallel, and its threads' number is the caller's again."""
    import numba

    from numbatok import threads

    before = numba.get_num_threads()
    with pytest.raises(ValueError, match="disallowed"):
        gpt2.encode("<|endoftext|>" + "a b" * 200_000, disallowed_special="all", allowed_special=(), num_threads=2)
    assert not threads._guard.locked()
    assert numba.get_num_threads() == before
    with threads._guard:  # taken: alone, but done
        assert len(gpt2.encode("a b" * 200_000, num_threads=2)) == 200_001


def test_aencode_batch(gpt2: Tokenizer) -> None:
    """The event loop goes on meanwhile; errors come through; a cancelled call ends soon."""
    documents = seam_texts(random.Random(8))

    async def main() -> None:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.001)

        ticker = asyncio.create_task(tick())
        assert await gpt2.aencode_batch(documents) == gpt2.encode_batch(documents)
        pairs = await gpt2.aencode_batch(documents, documents, num_threads=1)
        assert pairs == gpt2.encode_batch(documents, documents)
        with pytest.raises(ValueError, match="at index 1 of the batch"):
            await gpt2.aencode_batch(["a", "<|endoftext|>"], disallowed_special="all", allowed_special=())
        with pytest.raises(TypeError, match="texts must be an iterable"):
            await gpt2.aencode_batch("one")

        rng = np.random.default_rng(1)
        text = rng.integers(97, 123, 40_000_000, np.uint8)
        text[rng.integers(0, len(text), len(text) // 9)] = 32
        ticks = 0
        long = asyncio.create_task(gpt2.aencode_batch([text]))
        await asyncio.sleep(0.2)
        assert ticks > 5
        long.cancel()
        with pytest.raises(asyncio.CancelledError):
            await long
        ticker.cancel()
        started = time.perf_counter()
        await asyncio.get_running_loop().shutdown_default_executor()  # waits for its threads
        assert time.perf_counter() - started < 5

    asyncio.run(main())
    assert gpt2.encode("Hello world").tolist() == [15496, 995]


def test_decoding_in_parallel(gpt2: Tokenizer) -> None:
    """Cut anywhere, inside documents too; an unknown id is the first one, as for one thread."""
    batch = gpt2.encode_batch(seam_texts(random.Random(10)) * 20)
    wanted = gpt2.decode_batch(batch, num_threads=1)
    with tasks_of(1, 0, 100):
        for threads in (2, 3, 8):
            assert gpt2.decode_batch(batch, num_threads=threads) == wanted
            assert gpt2.decode_batch(batch[3:40], num_threads=threads) == wanted[3:40]
            assert gpt2.decode_batch([[], [5], [], [6, 7]], num_threads=threads) == ["", "&", "", "'("]
            assert gpt2.decode_batch([[15496, 995]], num_threads=threads) == ["Hello world"]
            ids = batch.ids.copy()
            ids[[7777, 5000, 9000]] = 60_000
            with pytest.raises(ValueError, match="id 60000 at position") as parallel_error:
                gpt2.decode_batch(numbatok.TokenBatch(ids, batch.offsets), num_threads=threads)
            with pytest.raises(ValueError, match="id 60000 at position") as serial_error:
                gpt2.decode_batch(numbatok.TokenBatch(ids, batch.offsets), num_threads=1)
            assert str(parallel_error.value) == str(serial_error.value)


def test_cache_budget() -> None:
    """Caches stay within what they may take, and the ids are the same."""
    tokenizer = small.by_ranks()
    assert tokenizer.cache_info() == (0, 0, numbatok.get_cache_budget(), 0, 0)
    letters = str.maketrans("0123456789", "ghijklmnop")
    text = " ".join(f"{n:x}".translate(letters) for n in range(300_000))
    wanted = tokenizer.encode(text, num_threads=1)
    info = tokenizer.cache_info()
    assert 250_000 < info.entries < 400_000
    assert info.misses >= info.entries
    assert 8 << 20 < info.bytes <= info.budget
    tokenizer.encode("Hello Hello Hello")
    assert tokenizer.cache_info().hits >= info.hits + 1
    for budget in (1 << 20, 4 << 20, 0):
        tokenizer.set_cache_budget(budget)
        assert tokenizer.cache_info() == (0, 0, budget, 0, 0)
        for threads in (1, 2, 3):
            assert np.array_equal(tokenizer.encode(text, num_threads=threads), wanted)
            assert tokenizer.cache_info().bytes <= budget + threads * (200 << 10)
    tokenizer.clear_cache()
    assert tokenizer.cache_info().bytes == 0
    tokenizer.set_cache_budget(None)
    try:
        numbatok.set_cache_budget(3 << 20)
        assert tokenizer.cache_info().budget == 3 << 20
        assert np.array_equal(tokenizer.encode(text), wanted)
        assert tokenizer.cache_info().bytes <= 3 << 20
    finally:
        numbatok.set_cache_budget(None)
    tokenizer.set_cache_budget(np.int64(5 << 20))
    for other in (tokenizer.add_tokens(["<new>"]), tokenizer.with_dropout(0), tokenizer.with_dropout(0.1, seed=1)):
        assert other.cache_info().budget == 5 << 20
        other.encode(text)
        assert other.cache_info().budget == 5 << 20
    for wrong, kind in ((-1, ValueError), (1.5, TypeError), (True, TypeError)):
        with pytest.raises(kind, match="a cache budget must be"):
            numbatok.set_cache_budget(wrong)
        with pytest.raises(kind, match="a cache budget must be"):
            tokenizer.set_cache_budget(wrong)


FORKED = """
    import multiprocessing, os, sys, warnings
    warnings.simplefilter("error")
    import numpy as np
    import numbatok

    tokenizer = numbatok.get_encoding("gpt2")
    text = "Hello world, these are some words. " * 20_000
    wanted = tokenizer.encode(text, num_threads=1)
    before = sys.argv[1]
    if before == "parallel":
        assert np.array_equal(tokenizer.encode(text, num_threads=2), wanted)
    elif before == "alone":
        tokenizer.encode(text, num_threads=1)

    def work(threads):
        assert numbatok.get_num_threads() == 1
        assert np.array_equal(tokenizer.encode(text), wanted)
        assert np.array_equal(tokenizer.encode(text, num_threads=threads), wanted)
        batch = tokenizer.encode_batch([text] * 3, num_threads=threads)
        assert tokenizer.decode_batch(batch, num_threads=threads) == [text] * 3
        return os.getpid()

    if __name__ == "__main__":
        context = multiprocessing.get_context(sys.argv[2])
        with context.Pool(2) as pool:
            print(len(pool.map(work, [2, 4, 2, 4])))
        child = os.fork()
        if child == 0:
            work(2)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert np.array_equal(tokenizer.encode(text, num_threads=2), wanted)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("before", ["parallel", "alone", "nothing"])
def test_forked_workers(before: str) -> None:
    """A child works, alone unless told otherwise, whatever its parent has done; GNU's OpenMP would end it."""
    assert output_of(FORKED, before, "fork").split() == ["4"]


def test_spawned_workers(tmp_path) -> None:
    """A worker that is started anew takes a pickled tokenizer, and one thread."""
    script = tmp_path / "main.py"
    script.write_text(textwrap.dedent(FORKED))
    code = f"""
        import subprocess, sys
        print(subprocess.run([sys.executable, {str(script)!r}, "parallel", "spawn"], capture_output=True, text=True))
    """
    assert "stdout='4\\n', stderr=''" in output_of(code)


@settings(max_examples=20)
@given(texts.well_formed, st.sampled_from(THREADS), st.binary(max_size=4), st.integers(0, 400))
def test_utf8_of_long_texts(text: str, threads: int, noise: bytes, place: int) -> None:
    """Made and checked by several threads as by one, and as Python does."""
    content = text.encode()
    damaged = content[:place] + noise + content[place:]
    try:
        damaged.decode()
        wanted = -1
    except UnicodeDecodeError as error:
        wanted = error.start
    tokenizer = _small()
    with tasks_of(1, 0, 100):
        for data in (content, damaged):
            found = utf8.first_invalid(np.frombuffer(data, np.uint8), threads)
            assert found == (wanted if data is damaged else -1)
        long = "é" + text * (1 + 20_000 // max(len(text), 1))
        ids = tokenizer.encode(long.encode(), num_threads=1)
        assert np.array_equal(tokenizer.encode(long, num_threads=threads), ids)
        lone = long + "\ud800"
        assert np.array_equal(tokenizer.encode(lone, num_threads=threads), tokenizer.encode(lone, num_threads=1))

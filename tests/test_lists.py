"""Ids as lists: what kernels make of them, whose ints are shared, and what is left to Python."""

import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import small
from numbatok import TokenBatch, Tokenizer
from numbatok import lists as lists_module
from numbatok.errors import DisallowedToken
from numbatok.lists import MOST_INTEGERS, ListEncoder, shared_integers
from support import engine_of

FAR = 4_000_000_000
#: Larger than the ints that CPython itself shares.
NUMBER = 300


def encoder_of(tokenizer: Tokenizer) -> ListEncoder:
    return ListEncoder(engine_of(tokenizer), tokenizer.vocab_size)


def allowing(encoder: ListEncoder, *allowed: str, refused: tuple[str, ...] = ()) -> Callable[[Any], list[int]]:
    return encoder.under((frozenset(allowed), frozenset(refused)))


@pytest.fixture(scope="module")
def encoder() -> ListEncoder:
    return encoder_of(small.by_ranks())


@given(documents=st.lists(st.lists(st.integers(0, 600), max_size=20), max_size=9))
def test_lists(encoder: ListEncoder, documents: list[list[int]]) -> None:
    """Of one document, and of each in a batch; the ints are one list's, and are not used up."""
    offsets = np.cumsum([0, *map(len, documents)])
    ids = np.array([id for document in documents for id in document], np.uint32)
    before = sys.getrefcount(encoder._integers[NUMBER])
    batch = encoder.lists_of(TokenBatch(ids, offsets))
    assert batch == documents
    single = encoder.list_of(ids)
    assert single == ids.tolist()
    assert all(id is encoder._integers[id] for id in single if id < encoder._known)
    del batch, single
    after = sys.getrefcount(encoder._integers[NUMBER])
    assert after == before


def test_ids_without_a_shared_int() -> None:
    """A special token's id may be any number; the list that holds it has ints of its own."""
    tokenizer = Tokenizer.from_tiktoken(small.ID_OF, pattern=r"\w+|\W", special_tokens={"<far>": FAR})
    encoder = encoder_of(tokenizer)
    assert len(encoder._integers) == MOST_INTEGERS
    encode = allowing(encoder, "<far>")
    assert encode("a<far>b") == [small.ID_OF[b"a"], FAR, small.ID_OF[b"b"]]
    assert encode("ab") == tokenizer.encode("ab").tolist()
    texts = ["a", "<far>", "b"]
    assert encoder.lists_of(tokenizer.encode_batch(texts)) == [tokenizer.encode(text).tolist() for text in texts]


def test_shared_integers_grow_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are the same ones for all tokenizers."""
    monkeypatch.setattr(lists_module, "_integers", [])
    first = shared_integers(1000)
    thousand = first[999]
    assert first == list(range(1000))
    assert shared_integers(10) is first
    assert len(first) == 1000
    assert shared_integers(2000) is first
    assert first[999] is thousand
    assert first == list(range(2000))


@pytest.mark.parametrize("repeats", [1, 100, 20_000])
def test_texts(repeats: int) -> None:
    """Short and long, ASCII and not; the first calls too, whose scratch knows of no list."""
    tokenizer = small.by_ranks()
    encode = allowing(encoder_of(tokenizer), small.END)
    for other in (b"the dog " * repeats, np.zeros(repeats, np.uint8), 5, None):
        with pytest.raises(TypeError, match="text must be str, not"):
            encode(other)
    for text in ("the dog " * repeats, "собака 狗 " * repeats, "\ud83d the " * repeats, ""):
        wanted = tokenizer.encode(text).tolist()
        for _ in range(3):
            assert encode(text) == wanted


def test_nothing_is_left_behind(encoder: ListEncoder) -> None:
    """No references of the interpreter's, nor objects."""
    encode = allowing(encoder)
    for _ in range(3):
        encode("the lazy dog")
    batch = small.by_ranks().encode_batch(["the lazy dog"] * 100)
    blocks = sys.getallocatedblocks()
    for _ in range(200):
        encode("the lazy dog")
        encoder.lists_of(batch)
    assert sys.getallocatedblocks() - blocks < 100


def test_a_refused_text_costs_no_scratch() -> None:
    """It is found before anything is changed."""
    tokenizer = small.by_ranks()
    encoder, engine = encoder_of(tokenizer), engine_of(tokenizer)
    encode = allowing(encoder, refused=(small.END,))
    encode("the dog")
    (scratch,) = engine.scratches.idle
    wanted = encode("the dog")
    for _ in range(3):
        with pytest.raises(DisallowedToken) as caught:
            encode(f"the dog{small.END}")
        assert (caught.value.document, caught.value.position, caught.value.token) == (0, 7, 0)
        assert list(engine.scratches.idle) == [scratch]
        assert encode("the dog") == wanted


def test_idle_scratches_are_bounded() -> None:
    """Threads at once leave no more of them than an engine keeps."""
    tokenizer = small.by_ranks()
    encode, engine = allowing(encoder_of(tokenizer)), engine_of(tokenizer)
    start = threading.Barrier(16)

    def work() -> None:
        start.wait()
        for _ in range(200):
            assert encode("the lazy dog") == wanted

    wanted = tokenizer.encode("the lazy dog").tolist()
    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(engine.scratches.idle) <= engine.scratches.idle.maxlen


def test_policies_are_not_kept_without_end(encoder: ListEncoder) -> None:
    for number in range(200):
        encode = allowing(encoder, f"no special token {number}")
        assert encode("the dog") == allowing(encoder)("the dog")
    assert len(encoder._encoders) <= lists_module.MOST_ENCODERS

"""Where text comes from: all kinds of Python objects, valid and not, and what is said about those that hold no text."""

import array
import ctypes
import gc
import mmap
import random
import sys

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import small
import texts
from numbatok.kernels import dtypes, text, utf8
from numbatok.placing import Placer
from numbatok.utf8 import transcode_texts
from support import address_of, array_of, engine_of, new_scratch


def first_invalid(content: bytes) -> int:
    """Where Python's own decoder stops, or -1."""
    try:
        content.decode()
    except UnicodeDecodeError as error:
        return error.start
    return -1


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """UTF-8 with some bytes changed, taken out or put in."""
    content = bytearray(draw(texts.well_formed).encode())
    telling = bytes.fromhex("00 7f 80 8f 90 9f a0 bf c0 c1 c2 df e0 ed ef f0 f4 f5 ff")
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(content)))
        taken = draw(st.integers(0, 2))
        content[place : place + taken] = bytes(draw(st.lists(st.sampled_from(telling), max_size=4)))
    return bytes(content)


@given(damaged() | st.binary(max_size=100))
@example(b"\xed\xa0\x80")
@example(b"aaaaaaa\xf0\x9f\x98")
@example(b"\xf4\x90\x80\x80")
@example(b"\xe0\x9f\xbf" + b"a" * 8)
def test_first_invalid_utf8(content: bytes) -> None:
    """The same verdict as Python's decoder and the same place, at any distance from the end."""
    for padded in (content, content + b"a" * 9, b"a" * 9 + content, content * 2):
        data = array_of(padded)
        assert utf8.first_invalid_utf8(address_of(data), len(data)) == first_invalid(padded)


@given(st.data(), st.integers(0, 200), st.sampled_from("aéन中\ud7ff\ue000😀\U0010ffff"))
def test_first_invalid_utf8_of_long_texts(data: st.DataObject, before: int, filling: str) -> None:
    """At any distance from the edges of blocks, and with a character across each."""
    fill = filling.encode()
    content = b"a" * before + fill * 70 + data.draw(damaged()) + fill * data.draw(st.integers(0, 40))
    for some in (content, content[: data.draw(st.integers(0, len(content)))]):
        held = array_of(some)
        assert utf8.first_invalid_utf8(address_of(held), len(held)) == first_invalid(some)


def test_every_short_sequence() -> None:
    """All sequences of two bytes from 0x80 on, and of three and four over the bytes where a rule changes."""
    edges = [0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0]
    leads = [0x80, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF]
    sequences = [bytes([a, b]) for a in range(0x80, 0x100) for b in range(256)]
    sequences += [bytes([a, b, c]) for a in leads for b in edges for c in edges]
    sequences += [bytes([a, b, c, d]) for a in leads for b in edges for c in edges for d in edges]
    for sequence in sequences:
        for before in (0, 61, 62, 63, 64):  # bytes: beside the edge of a block of 64
            whole = b"a" * before + sequence + (b"a" * 64 if before else b"")
            data = array_of(whole)
            assert utf8.first_invalid_utf8(address_of(data), len(data)) == first_invalid(whole), whole


@st.composite
def of_runs(draw: st.DrawFn) -> str:
    """Runs of characters that take one, two, three or four bytes of UTF-8, around the lengths of the kernel's steps."""
    alphabets = ["az\x7f", "\x80éß\u07ff", "\u0800中\ud7ff\ue000\uffff", "\U00010000😀\U0010ffff", "aéя中", "яж "]
    lengths = st.sampled_from([1, 1, 2, 3, 7, 15, 16, 17, 31, 48, 63, 64, 65, 130])
    runs = draw(st.lists(st.tuples(st.sampled_from(alphabets), lengths), max_size=8))
    return "".join("".join(draw(st.sampled_from(alphabet)) for _ in range(length)) for alphabet, length in runs)


@given(of_runs(), st.integers(0, 1000), st.sampled_from([0xD800, 0xDBFF, 0xDC00, 0xDFFF]))
def test_transcode_utf8(content: str, place: int, surrogate: int) -> None:
    """The bytes of Python's encoder from every width of characters that holds them, and nothing past their end."""
    widest = max(map(ord, content), default=0)
    expected = content.encode()
    for width, encoding in ((1, "latin-1"), (2, "utf-16-le"), (4, "utf-32-le")):
        if widest >= 1 << 8 * width:
            continue
        characters = array_of(content.encode(encoding))
        arguments = address_of(characters), len(content), width
        assert utf8.transcode_utf8(*arguments, 0, 0) == len(expected)
        for room in (len(expected), len(expected) + 1, len(expected) + 100):
            output = np.full(room + 1, 0xAA, np.uint8)
            assert utf8.transcode_utf8(*arguments, address_of(output), room) == len(expected)
            assert output[: len(expected)].tobytes() == expected
            assert output[room] == 0xAA
        if expected:
            assert utf8.transcode_utf8(*arguments, address_of(output), len(expected) - 1) == -1
        if content and width > 1:
            broken = characters.copy().view(f"<u{width}")
            broken[place % len(content)] = surrogate
            assert utf8.transcode_utf8(address_of(broken), *arguments[1:], address_of(output), len(output)) == -1


@given(st.lists(of_runs() | st.sampled_from(["", "é", "\ud800 я", "я" * 15, "я" * 16, "中" * 17]), max_size=12))
def test_transcode_texts(contents: list[str]) -> None:
    """Texts one after the other, each whole and untouched by the next; one with a lone surrogate is marked."""
    held, widths = [], []
    for content in contents:
        widest = max(map(ord, content), default=0)
        width = 1 if widest < 0x100 else 2 if widest < 0x10000 else 4
        encoding = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}[width]
        held.append(array_of(content.encode(encoding, "surrogatepass")))
        widths.append(width)
    if not contents:
        return
    characters = np.array([address_of(array) for array in held])
    counts = np.array([len(content) for content in contents])
    for threads in (1, 3):
        data, places, sizes = transcode_texts(characters, counts, np.array(widths, np.int8), threads)
        assert len(data) >= sizes.sum()
        for content, place, size in zip(contents, places.tolist(), sizes.tolist(), strict=True):
            if "\ud800" in content:
                assert size == -1
            else:
                assert ctypes.string_at(place, size) == content.encode()


def test_a_list_of_characters(small_ranks, naive_ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch whose UTF-8 is made at once gives each text's ids, whatever else is in it; the texts keep none of it."""
    rng = random.Random(9)
    documents = [texts.random_text(rng, rng.randint(0, 60)) + "é" for _ in range(300)]
    documents[7::20] = [b"\xd1\x8f bytes", "ascii alone", "", "lone \ud800", "pair \ud83d\ude00"] * 3
    expected = [small_ranks.encode(document).tolist() for document in documents]
    for transcodes in (True, False):
        monkeypatch.setattr(Placer, "_transcodes", lambda self, texts, answer=transcodes: answer)
        for threads in (1, 2):
            fresh = [document if isinstance(document, bytes) else (document + "x")[:-1] for document in documents]
            sizes = [sys.getsizeof(document) for document in fresh]
            assert small_ranks.encode_batch(fresh, num_threads=threads).tolist() == expected
            if transcodes:
                assert [sys.getsizeof(document) for document in fresh] == sizes
    monkeypatch.undo()
    assert small_ranks.encode_batch(documents).tolist() == expected
    with pytest.raises(TypeError, match="at index 290 of the batch"):
        small_ranks.encode_batch([*documents[:290], 5])


@given(damaged() | st.binary(max_size=60))
def test_bytes_strict_or_replaced(small_ranks, naive_ranks, content: bytes) -> None:
    """Valid bytes give the ids of their text; others an error with the place, or the ids with U+FFFD, on request."""
    replaced = naive_ranks.encode(content.decode("utf-8", "replace"))
    assert small_ranks.encode(content, errors="replace").tolist() == replaced
    assert small_ranks.encode_batch([content, b"x"], errors="replace")[0].tolist() == replaced
    assert small_ranks.count(content, errors="replace") == len(replaced)
    if first_invalid(content) < 0:
        assert small_ranks.encode(content).tolist() == replaced
    else:
        with pytest.raises(UnicodeDecodeError) as raised:
            small_ranks.encode(content)
        assert raised.value.start == first_invalid(content)
        assert raised.value.object == content
        assert 'errors="replace"' in str(raised.value)


def test_invalid_bytes_in_a_batch_name_the_index(small_ranks) -> None:
    """The index of the text, and the position in it."""
    for call in (small_ranks.encode_batch, small_ranks.count_batch):
        with pytest.raises(UnicodeDecodeError, match=r"position 2: .* at index 3 of the batch") as raised:
            call(["a", b"b", "c", b"xy\x80z", b"\xff"])
        assert raised.value.start == 2


@given(
    st.lists(
        st.sampled_from(["\ud83d", "\ude00", "\ud800", "\udfff", "a", "é", " ", "😀", "中", "\ufeff"]), max_size=20
    )
)
def test_surrogates_as_tiktoken(gpt2, tiktoken_gpt2, parts: list[str]) -> None:
    """Pairs are joined and lone ones replaced, in every method that takes text."""
    source = "".join(parts)
    expected = tiktoken_gpt2.encode(source)
    assert gpt2.encode(source).tolist() == expected
    assert gpt2.encode_batch(["x", source])[1].tolist() == expected
    assert gpt2.count(source) == len(expected)
    assert gpt2.count_batch([source]).tolist() == [len(expected)]
    repaired = source.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert gpt2.pretokenize(source).tolist() == gpt2.pretokenize(repaired).tolist()


def test_surrogates_in_long_text(gpt2, tiktoken_gpt2) -> None:
    """The same in text of each width of character, beyond what the short way takes."""
    for filler in ("é", "中", "😀"):
        for bad in ("\ud800", "\ud83d\ude00"):
            for source in (filler * 40_000 + bad, bad + filler * 40_000, "x " * 40_000 + bad + filler):
                expected = tiktoken_gpt2.encode(source)
                assert gpt2.encode(source).tolist() == expected
                assert gpt2.encode(source).tolist() == expected


@pytest.mark.parametrize("characters", [0, 1, 15, 16, 17, 16_383, 16_384, 16_385, 65_535, 65_536, 65_537, 200_000])
@pytest.mark.parametrize("end", ["", "é", "中", "😀"])
def test_str_of_every_width(small_ranks, naive_ranks, characters: int, end: str) -> None:
    """A ``str`` is kept with 1, 2 or 4 bytes a character; each way of reading it gives the same ids, time and again."""
    source = ("ab c" * (characters // 4 + 1))[:characters] + end
    expected = small_ranks.encode(source.encode()).tolist()
    if characters < 20_000:
        assert expected == naive_ranks.encode(source)
    for _ in range(3):
        assert small_ranks.encode(source).tolist() == expected
        assert small_ranks.encode_batch([source, end])[0].tolist() == expected
    assert small_ranks.count(source) == len(expected)


def test_a_str_made_anew_at_the_same_address(small_ranks) -> None:
    """Nothing is remembered of a ``str`` that is gone, whose ``id`` another may have."""
    for character in "éüñçØÞß" * 3:
        source = character * 50_000
        assert small_ranks.decode(small_ranks.encode(source)) == source
        del source


class Word(str):
    """A subclass of str."""


class Octets(bytes):
    """A subclass of bytes."""


class Growing(bytearray):
    """A subclass of bytearray."""


@pytest.mark.parametrize("content", ["", "a", "Hello wörld 中文 😀", "ab " * 50_000, "é中 " * 30_000])
def test_every_kind_of_text(small_ranks, content: str) -> None:
    """All that can hold text give the ids of that text, alone and in a batch, from every method."""
    data = content.encode()
    wide = np.zeros(2 * len(data), np.uint8)
    wide[::2] = np.frombuffer(data, np.uint8)
    read_only = np.frombuffer(data, np.uint8)
    kinds = [
        content,
        Word(content),
        np.str_(content),
        data,
        Octets(data),
        bytearray(data),
        Growing(data),
        memoryview(data),
        memoryview(bytearray(data)),
        memoryview(wide)[::2],
        memoryview(b"x" + data + b"y")[1:-1],
        read_only,
        read_only.copy(),
        wide[::2],
        np.frombuffer(data[::-1], np.uint8)[::-1],
        array.array("B", data),
        (ctypes.c_uint8 * len(data)).from_buffer_copy(data),
    ]
    if data:
        mapped = mmap.mmap(-1, len(data))
        mapped[:] = data
        kinds.append(mapped)
    expected = small_ranks.encode(content).tolist()
    edges = small_ranks.pretokenize(content).tolist()
    assert small_ranks.decode(expected) == content
    for source in kinds:
        assert small_ranks.encode(source).tolist() == expected, type(source)
        assert small_ranks.count(source) == len(expected), type(source)
        assert small_ranks.pretokenize(source).tolist() == edges, type(source)
    assert small_ranks.encode_batch(kinds).tolist() == [expected] * len(kinds)
    assert small_ranks.count_batch(kinds).tolist() == [len(expected)] * len(kinds)


NO_TEXTS = [
    None,
    5,
    1.5,
    ["a"],
    ("a",),
    {"a": 1},
    object(),
    np.zeros(3),
    np.zeros(3, np.int8),
    np.zeros((2, 2), np.uint8),
]
NO_TEXTS += [np.array("a"), memoryview(np.zeros(3, np.uint16)), array.array("H", [1])]
NO_TEXTS += [memoryview(np.zeros((2, 2), np.uint8)), memoryview(np.array(5, np.uint8)), np.uint8(5)]


@pytest.mark.parametrize("wrong", NO_TEXTS, ids=repr)
def test_what_holds_no_text(small_ranks, wrong: object) -> None:
    """TypeError that says what is wanted and what was given; in a batch with the index."""
    for call in (small_ranks.encode, small_ranks.count, small_ranks.pretokenize):
        with pytest.raises(TypeError, match=r"text must be str, or bytes, .* holding UTF-8, not "):
            call(wrong)
    for call in (small_ranks.encode_batch, small_ranks.count_batch):
        with pytest.raises(TypeError, match=r"text must be .* at index 2 of the batch"):
            call(["a", b"b", wrong])
    assert small_ranks.encode("still well").size


def test_locating_a_list() -> None:
    """Address, length and kind of each item, read where Python keeps it; other items are marked."""
    documents = ["", "abc", "é中😀", "x" * 1000, b"bytes", b"", bytearray(b"b"), 5, "\ud800", None, ["a"]]
    count = len(documents)
    addresses, lengths, kinds = np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.int8)
    total = text.locate_list(id(documents), count, address_of(addresses), address_of(lengths), address_of(kinds), 0)
    for document, address, length, kind in zip(documents, addresses.tolist(), lengths.tolist(), kinds, strict=True):
        if isinstance(document, str) and document != "\ud800":
            assert kind == text.IS_STR
            assert ctypes.string_at(address, length) == document.encode()
        elif isinstance(document, bytes):
            assert kind == text.IS_BYTES
            assert ctypes.string_at(address, length) == document
        else:
            assert kind == text.IS_NEITHER
    assert total == lengths.sum()


def test_locating_a_text(small_ranks) -> None:
    """A ``str`` is read in place, and the scratch set to its start; all else is left to Python."""
    scratch = new_scratch(small_ranks)
    for source in ("abc", "é中😀", "x" * 100_000):
        scratch.record[[dtypes.WORK_DOCUMENT, dtypes.WORK_POSITION, dtypes.WORK_OUTPUT_USED]] = 7
        length = text.locate_text(id(source), scratch.address)
        assert ctypes.string_at(int(scratch.record[dtypes.WORK_TEXT]), length) == source.encode()
        assert scratch.record[dtypes.WORK_POSITION] == dtypes.AT_BEGINNING
        assert not scratch.record[[dtypes.WORK_DOCUMENT, dtypes.WORK_OUTPUT_USED]].any()
    for source in (b"abc", bytearray(b"abc"), "\ud800", None, 5):
        assert text.locate_text(id(source), scratch.address) < 0


def test_a_long_str_is_never_changed(small_ranks) -> None:
    """Reading its UTF-8 leaves a ``str`` what it was."""
    rng = random.Random(3)
    source = texts.random_text(rng, 30_000)
    copy = source.encode().decode()
    small_ranks.encode(source)
    small_ranks.encode_batch([source])
    assert source == copy
    assert hash(source) == hash(copy)


@pytest.mark.parametrize("characters", [0, 1, 3, 4, 5, 300, 3_000, 70_000])
def test_an_array_made_by_a_kernel(small_ranks, characters: int) -> None:
    """It is an array as NumPy itself makes them, owned by whoever gets it, and freed with the last reference."""
    source = ("ab é" * characters)[:characters]
    expected = small_ranks.encode_batch([source] * 40)[0]
    ids = small_ranks.encode(source)
    assert type(ids) is np.ndarray
    assert ids.dtype is expected.dtype
    assert ids.tolist() == expected.tolist()
    assert ids.flags.owndata
    assert ids.flags.writeable
    assert ids.flags.c_contiguous
    assert ids.base is None
    assert sys.getrefcount(ids) == 2
    ids[:] = 0
    assert small_ranks.encode(source).tolist() == expected.tolist()
    for call in (small_ranks.encode, small_ranks.count):
        call(source)
        references, blocks = sys.getrefcount(source), sys.getallocatedblocks()
        for _ in range(100):
            call(source)
        assert sys.getrefcount(source) == references
        assert sys.getallocatedblocks() - blocks < 50


def test_methods_outlive_what_they_belong_to() -> None:
    """A built-in function made of a kernel keeps all that it is called with."""
    tokenizer = small.by_ranks()
    ids = tokenizer.encode("ab").tolist()
    decode = engine_of(tokenizer).decoder.list_decoders[False]
    del tokenizer
    gc.collect()
    assert decode(ids) == b"ab"
    for wrong in ((), "ab", None, [None], [-1], [1 << 70], [10**6]):
        assert decode(wrong) is None
    for arguments in ((), ([], [])):
        with pytest.raises(TypeError, match="exactly one argument"):
            decode(*arguments)


@pytest.mark.parametrize("others", [[], ["x" * 70_000], [b"bytes"], ["\ud800"], ["ab"] * 40])
def test_few_texts(small_ranks, others: list[str | bytes]) -> None:
    """A batch of few texts is encoded as one of many is, whatever is among them."""
    documents = ["Hello", "", "wörld ☃ ", *others]
    many = small_ranks.encode_batch(documents * 40)
    few, counts = small_ranks.encode_batch(documents), small_ranks.count_batch(documents)
    assert few.tolist() == many[: len(documents)].tolist()
    assert few.ids.dtype == np.uint32
    assert few.offsets.dtype == counts.dtype == np.int64
    assert counts.tolist() == few.lengths.tolist()
    half = small_ranks.encode_batch(documents, dtype=np.uint16)
    assert half.ids.dtype == np.uint16
    assert half.tolist() == few.tolist()
    out = np.empty(len(few.ids), np.uint32)
    assert np.shares_memory(small_ranks.encode_batch(documents, out=out).ids, out)
    assert out.tolist() == few.ids.tolist()
    with pytest.raises(ValueError, match=f"out has room for {len(out) - 1} ids, but the texts have {len(out)}"):
        small_ranks.encode_batch(documents, out=out[1:])


@pytest.mark.parametrize("unit", ["char", "byte"])
def test_offsets_made_by_a_kernel(small_ranks, unit: str) -> None:
    """They are arrays as NumPy itself makes them, and the same as in a batch, also after a text that was left."""
    for source in ("", "a", "Hello wörld ☃", "ab é" * 500, "x" * 70_000, "\ud800", "again"):
        batch = small_ranks.encode_batch([source, "and another"], return_offsets=unit)
        ids, offsets = small_ranks.encode_with_offsets(source, unit=unit)
        assert ids.tolist() == batch[0].tolist()
        assert offsets.tolist() == batch.token_offsets[: len(ids)].tolist()
        assert offsets.dtype == np.int64
        assert offsets.shape == (len(ids), 2)
        assert offsets.flags.owndata
        assert offsets.flags.writeable
        assert sys.getrefcount(ids) == sys.getrefcount(offsets) == 2
    small_ranks.encode_with_offsets(source, unit=unit)
    references, blocks = sys.getrefcount(source), sys.getallocatedblocks()
    for _ in range(100):
        small_ranks.encode_with_offsets(source, unit=unit)
    assert sys.getrefcount(source) == references
    assert sys.getallocatedblocks() - blocks < 50

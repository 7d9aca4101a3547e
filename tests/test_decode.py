"""From ids to bytes and text: all ways to give ids, what is left out, and what is said about ids that are none."""

import json
import random
import sys
import threading

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

import small
import texts
from numbatok import AddedToken, TokenBatch, Tokenizer
from numbatok.added_tokens import AddedTokens
from numbatok.kernels import decode
from numbatok.memory import address_of
from numbatok.parts import Parts
from numbatok.vocabulary import Vocabulary

END = small.ADDED[small.END]


@given(texts.well_formed)
def test_round_trip(small_ranks, text: str) -> None:
    """Encoding loses nothing."""
    assert small_ranks.decode(small_ranks.encode(text)) == text


@given(st.lists(st.integers(0, END)))
def test_any_ids(small_ranks, naive_ranks, ids: list[int]) -> None:
    """Any sequence of ids gives their bytes, UTF-8 or not."""
    content = naive_ranks.decode_bytes(ids)
    assert small_ranks.decode_bytes(ids) == content
    assert small_ranks.decode(ids) == content.decode("utf-8", "replace")


def test_every_token_of_gpt2(gpt2, naive_gpt2, tiktoken_gpt2) -> None:
    """All ids at once, each alone, and in a batch; the longest tokens have 128 bytes."""
    ids = list(range(gpt2.vocab_size))
    random.Random(1).shuffle(ids)
    assert gpt2.decode_bytes(ids) == naive_gpt2.decode_bytes(ids) == tiktoken_gpt2.decode_bytes(ids)
    alone = [tiktoken_gpt2.decode_single_token_bytes(id) for id in ids]
    assert gpt2.decode_batch([[id] for id in ids]) == [token.decode("utf-8", "replace") for token in alone]
    assert [gpt2.id_to_token(id) for id in ids] == alone


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", ">u4", ">i8"])
def test_arrays_of_any_integer_type(small_ranks, dtype: str) -> None:
    """Whatever the width and byte order; strided, reversed and read-only ones too."""
    ids = np.arange(100, dtype=dtype)
    expected = b"".join(small.TOKENS[:100])
    assert small_ranks.decode_bytes(ids) == expected
    assert small_ranks.decode_bytes(ids[::2]) == b"".join(small.TOKENS[:100:2])
    assert small_ranks.decode_bytes(ids[::-1]) == b"".join(small.TOKENS[99::-1])
    ids.flags.writeable = False
    assert small_ranks.decode_bytes(ids) == expected


@pytest.mark.parametrize(
    "make", [list, tuple, lambda ids: np.array(ids, object), lambda ids: range(ids[0], ids[-1] + 1)]
)
def test_sequences_of_ints(small_ranks, make) -> None:
    """Lists, tuples, ranges, and arrays of Python ints."""
    assert small_ranks.decode_bytes(make([5, 6, 7])) == b"".join(small.TOKENS[5:8])


def test_nothing(small_ranks) -> None:
    """No ids make no text, of whatever kind the emptiness is."""
    for empty in ([], (), np.empty(0, np.int64), np.empty(0), range(0)):
        assert small_ranks.decode(empty) == ""
        assert small_ranks.decode_bytes(empty) == b""
    assert small_ranks.decode_batch([]) == []
    assert small_ranks.decode_batch([[], [], [5], []]) == ["", "", small.TOKENS[5].decode(), ""]


def test_errors_of_incomplete_characters(small_ranks) -> None:
    """``errors`` is that of ``bytes.decode``."""
    ids = [small.ID_OF[b"x"], small.ID_OF[b"\xf0"], small.ID_OF[b"\x9f"]]
    assert small_ranks.decode(ids) == "x\ufffd"
    assert small_ranks.decode(ids, errors="ignore") == "x"
    with pytest.raises(UnicodeDecodeError, match="position 1"):
        small_ranks.decode(ids, errors="strict")
    for others in ([], [5]):  # whatever is decoded
        with pytest.raises(LookupError, match="zz"):
            small_ranks.decode(others, errors="zz")
        with pytest.raises(LookupError, match="zz"):
            small_ranks.decode_batch([others], errors="zz")
    assert small_ranks.decode_batch([ids, ids], errors="ignore") == ["x", "x"]


def test_skipping_special_tokens() -> None:
    """Special tokens are left out if wanted, other added tokens never."""
    tokenizer = small.by_ranks(AddedToken("<s>", END), AddedToken("<o>", END + 1, special=False))
    ids = tokenizer.encode("a<s>b<o><s>")
    assert tokenizer.decode(ids) == "a<s>b<o><s>"
    assert tokenizer.decode(ids, skip_special_tokens=True) == "ab<o>"
    assert tokenizer.decode_bytes(ids, skip_special_tokens=True) == b"ab<o>"
    assert tokenizer.decode_batch([ids, [END], ids], skip_special_tokens=True) == ["ab<o>", "", "ab<o>"]


def test_batches(small_ranks) -> None:
    """A TokenBatch, its slices, and lists of documents of different kinds give the texts back."""
    documents = ["Hello", "", "wörld 中文", "<|endoftext|>", " "]
    batch = small_ranks.encode_batch(documents)
    assert small_ranks.decode_batch(batch) == documents
    assert small_ranks.decode_batch(batch[1:4]) == documents[1:4]
    assert small_ranks.decode_batch(batch[::-2]) == documents[::-2]
    assert small_ranks.decode_batch(iter(batch)) == documents
    assert small_ranks.decode_batch([batch[0], batch[1].tolist(), tuple(batch[2].tolist())]) == documents[:3]
    inside = TokenBatch(batch.ids, batch.offsets[1:])
    assert small_ranks.decode_batch(inside) == documents[1:]


@pytest.mark.parametrize(
    ("ids", "id", "position"),
    [
        ([0, 1, END + 1], END + 1, 2),
        ([-1], -1, 0),
        ([3, -7], -7, 1),
        ([1 << 32], 1 << 32, 0),
        ([5, (1 << 32) + 5], (1 << 32) + 5, 1),
        ([1 << 70, 0], 1 << 70, 0),
        ([0, (1 << 64) - 1], (1 << 64) - 1, 1),
        ([1 << 63, -1], 1 << 63, 0),
        (np.array([2, -2], np.int8), -2, 1),
        (np.array([2, 1 << 63], np.uint64), 1 << 63, 1),
        (np.array([(1 << 32) - 1], np.uint32), (1 << 32) - 1, 0),
    ],
)
def test_ids_that_are_none(small_ranks, ids: object, id: int, position: int) -> None:
    """Named with their position: beyond the vocabulary, negative, and too large for any."""
    message = f"id {id} at position {position} is not in this vocabulary of {END + 1} tokens"
    for call in (small_ranks.decode, small_ranks.decode_bytes):
        with pytest.raises(ValueError, match=f"^{message}$"):
            call(ids)
    message = message.replace(" is not", " of the document at index 2 is not")
    with pytest.raises(ValueError, match=f"^{message}$"):
        small_ranks.decode_batch([[], [1], ids])


def test_unknown_id_in_a_token_batch(small_ranks) -> None:
    """Document and position in it, after empty documents too."""
    batch = TokenBatch(np.array([1, 2, 3, END + 9], np.uint32), np.array([0, 2, 2, 4]))
    with pytest.raises(ValueError, match=f"id {END + 9} at position 1 of the document at index 2 is not"):
        small_ranks.decode_batch(batch)


NO_IDS = [None, 5, "abc", b"abc", ["a"], [1.5], [None], [[1]], [[1], [2, 3]], {1, 2}, np.array(5)]
NO_IDS += [np.array([1, 2], "m8[s]"), [np.timedelta64(1, "s")], np.ma.array([1, 2], mask=[0, 1]), [True]]


@pytest.mark.parametrize("ids", [*NO_IDS, np.zeros((2, 2), int), np.ones(2)], ids=repr)
def test_what_are_no_ids(small_ranks, ids: object) -> None:
    """TypeError for anything but a sequence of integers."""
    with pytest.raises(TypeError, match="ids must be"):
        small_ranks.decode(ids)


def test_a_batch_is_not_one_document(small_ranks) -> None:
    """The two are not taken for each other."""
    batch = small_ranks.encode_batch(["a", "b"])
    for some in (batch, batch[:1], batch[:0]):
        with pytest.raises(TypeError, match="decode_batch"):
            small_ranks.decode(some)
    for wrong in (5, None, "ab", b"ab"):
        with pytest.raises(TypeError, match="batch must be a TokenBatch or an iterable of sequences of ids"):
            small_ranks.decode_batch(wrong)
    with pytest.raises(TypeError, match="at index 0"):
        small_ranks.decode_batch([1, 2])


def test_ids_far_apart() -> None:
    """Ids up to 2^32 - 1 need no table of that size, and those between are none."""
    ids = [id * 6_000_000 for id in range(len(small.TOKENS))]
    added = AddedTokens([AddedToken("<s>", (1 << 32) - 1), AddedToken("<o>", 1, special=False)])
    tokenizer = Tokenizer(Parts(Vocabulary.from_ranks(small.TOKENS, ids), added, small.RULE))
    assert ids[-1] < (1 << 32) - 1
    chosen = [ids[70], (1 << 32) - 1, ids[-1], 1, ids[0]]
    content = [small.TOKENS[70], b"<s>", small.TOKENS[-1], b"<o>", small.TOKENS[0]]
    assert tokenizer.decode_bytes(chosen) == b"".join(content)
    assert tokenizer.decode_bytes(chosen, skip_special_tokens=True) == b"".join([content[0], *content[2:]])
    for unknown in (2, ids[-1] + 1, ids[70] - 1, (1 << 32) - 2):
        with pytest.raises(ValueError, match=f"id {unknown} at position 1 "):
            tokenizer.decode_bytes([ids[70], unknown])


def test_an_added_token_in_the_place_of_an_ordinary_one() -> None:
    """One with the id and the bytes of a token is that token, and can be special."""
    the = small.ID_OF[b" the"]
    tokenizer = Tokenizer(
        Parts(Vocabulary.from_ranks(small.TOKENS), AddedTokens([AddedToken(" the", the)]), small.RULE)
    )
    assert tokenizer.decode([the]) == " the"
    assert tokenizer.decode([the], skip_special_tokens=True) == ""
    assert tokenizer.vocab_size == len(small.TOKENS)


def test_ids_that_change_after_they_are_counted(monkeypatch, small_ranks) -> None:
    """Another thread makes each id one of more bytes, again and again: the bytes are those of the last ids."""
    short, long = small.ID_OF[b"x"], max(range(len(small.TOKENS)), key=lambda id: len(small.TOKENS[id]))
    ids = np.full(1000, short, np.uint32)
    kernel = decode.decode_documents

    def counting_then_changing(*arguments: int) -> int:
        status = kernel(*arguments)
        ids[:] = long
        return status

    small_ranks.decode(ids)
    monkeypatch.setattr(decode, "decode_documents", counting_then_changing)
    assert small_ranks.decode_bytes(ids) == small.TOKENS[long] * 1000


@pytest.mark.parametrize("room", [1, 5, 11])
def test_the_kernel_writes_no_further_than_its_room(room: int) -> None:
    """It says so, and what lies behind is untouched."""
    ids, offsets, table = np.zeros(12, np.uint32), np.array([0, 12]), np.zeros(1, np.int32)
    starts, data, ends = np.array([0, 1]), np.full(32, 7, np.uint8), np.zeros(1, np.int64)
    output = np.zeros(100, np.uint8)
    tables = address_of(table), 1, address_of(starts), 1, address_of(data), len(data)
    arrays = address_of(ids), address_of(offsets), 1
    assert decode.decode_documents(*arrays, *tables, address_of(output), room, address_of(ends)) == decode.NO_ROOM
    assert not output[room:].any()
    assert decode.decode_documents(*arrays, *tables, address_of(output), 12, address_of(ends)) == 12
    assert output[:12].all()
    assert not output[12:].any()


@pytest.mark.parametrize(
    ("edit", "error", "message"),
    [
        (lambda batch: batch.offsets.__setitem__(-1, 1 << 40), ValueError, "at most 3, the number of ids"),
        (lambda batch: batch.offsets.__setitem__(0, -5), ValueError, "offsets must rise"),
        (lambda batch: batch.offsets.__setitem__(1, 3), ValueError, "offsets must rise"),
    ],
)
def test_a_batch_that_was_edited(small_ranks, edit, error: type[Exception], message: str) -> None:
    """Its arrays are checked again before a kernel reads by them; offsets can be used as any array."""
    batch = TokenBatch(np.array([1, 2, 3], np.uint32), np.array([0, 1, 2, 3]))
    assert (batch.offsets + 1).tolist() == [1, 2, 3, 4]
    edit(batch)
    with pytest.raises(error, match=message):
        small_ranks.decode_batch(batch)


def test_offsets_that_change_while_they_are_read(monkeypatch, small_ranks) -> None:
    """The kernel has a copy of its own."""
    batch = TokenBatch(np.array([5, 6], np.uint32), np.array([0, 1, 2]))
    kernel = decode.decode_documents

    def changing(*arguments: int) -> int:
        batch.offsets[:] = [0, 1 << 40, 1 << 41]
        return kernel(*arguments)

    monkeypatch.setattr(decode, "decode_documents", changing)
    assert small_ranks.decode_batch(batch) == [small.TOKENS[5].decode(), small.TOKENS[6].decode()]


def strings() -> Tokenizer:
    """A vocabulary whose tokens are strings, with a decoder of its own and a token that no text becomes."""
    settings = small.tokenizer_json(vocab={"a": 0, "▁": 1, "a▁": 2, "": 5, "<0xC3>": 3, "<0xA9>": 4}, merges=["a ▁"])
    settings |= {"pre_tokenizer": None, "post_processor": None, "added_tokens": []}
    settings["decoder"] = {
        "type": "Sequence",
        "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}],
    }
    return Tokenizer.from_str(json.dumps(settings)).add_tokens(["<s>"], special=True)


def test_tokens_that_are_strings() -> None:
    """One by one, in a batch, and as bytes; special tokens are left out where asked."""
    tokenizer = strings()
    end = tokenizer.token_to_id("<s>")
    assert tokenizer.decode([2, 0, 3, 4, 5, end]) == "a aé<s>"
    assert tokenizer.decode_bytes([2, 0, 3, 4, 5, end], skip_special_tokens=True) == "a aé".encode()
    assert tokenizer.decode_batch([[2, 0], [], [end]]) == ["a a", "", "<s>"]


def test_unknown_ids_of_strings() -> None:
    """Named with their place, and in a batch with the document."""
    tokenizer = strings()
    with pytest.raises(ValueError, match="id 99 at position 1 is not"):
        tokenizer.decode([0, 99])
    with pytest.raises(ValueError, match="id 99 at position 2 of the document at index 1 is not"):
        tokenizer.decode_batch([[0, 1, 2], [0, 1, 99]])


#: Added tokens of characters of the byte alphabet, with others, and what a normalizer makes of some: (content, flags).
SPELLED = [
    ("õõ", {}),
    ("ĠĠx", {"special": False}),
    ("éé", {"special": False, "normalized": True}),
    ("ĠaÃ©", {}),
    ("é日", {}),
    ("a b", {"normalized": True}),
    ("ĀĀ", {"normalized": True}),
    ("ĠÀ", {"special": False, "normalized": True}),
    ("DOG", {"normalized": True}),
    ("dogdog", {}),
]
NORMALIZERS = {
    "none": None,
    "decomposed": {"type": "NFD"},
    "lower case": {"type": "Lowercase"},
    "shortened": {"type": "Replace", "pattern": {"String": "ĠÀ"}, "content": "Ġ"},
    "spelled": {"type": "ByteLevel"},
    "lower case, spelled": {"type": "Sequence", "normalizers": [{"type": "Lowercase"}, {"type": "ByteLevel"}]},
}


def with_spelled_tokens(normalizer: str) -> str:
    """The content of a file with the added tokens of SPELLED after the small vocabulary."""
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    added = [{"id": END + number, "content": content, **flags, **own} for number, (content, own) in enumerate(SPELLED)]
    content = {**small.tokenizer_json(), "added_tokens": added, "normalizer": NORMALIZERS[normalizer]}
    if "spelled" in normalizer:
        content["pre_tokenizer"] = None
    return json.dumps(content)


@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_added_tokens_of_the_byte_alphabet(normalizer: str) -> None:
    """They are decoded as the bytes that they spell, and skipped by their string, as `tokenizers` does both."""
    content = with_spelled_tokens(normalizer)
    ours, reference = Tokenizer.from_str(content), tokenizers.Tokenizer.from_str(content)
    rng = random.Random(5)
    rows = [[id] for id in range(END, END + len(SPELLED))]
    rows += [[rng.choice([rng.randrange(END), rng.randrange(END, END + len(SPELLED))]) for _ in range(9)] for _ in rows]
    for skip in (False, True):
        wanted = [reference.decode(row, skip_special_tokens=skip) for row in rows]
        assert [ours.decode(row, skip_special_tokens=skip) for row in rows] == wanted
        assert [ours.decode(np.array(row), skip_special_tokens=skip) for row in rows] == wanted
        assert ours.decode_batch(rows, skip_special_tokens=skip) == wanted
        for row, text in zip(rows, wanted, strict=True):
            stream = ours.stream_decoder(skip_special_tokens=skip)
            assert "".join([*map(stream.feed, row), stream.finish()]) == text
            streams = ours.batch_stream_decoder(1, skip_special_tokens=skip)
            given_out = [*(streams.feed([id])[0] for id in row), streams.finish()[0]]
            assert b"".join(map(bytes, given_out)).decode() == text


def test_added_tokens_of_the_byte_alphabet_in_texts() -> None:
    """What they are decoded as has nothing to do with where they stand."""
    content = with_spelled_tokens("none")
    ours, reference = Tokenizer.from_str(content), tokenizers.Tokenizer.from_str(content)
    for token, _ in SPELLED:
        ids, offsets = ours.encode_with_offsets(f"a{token}b")
        wanted = reference.encode(f"a{token}b")
        assert ids.tolist() == wanted.ids
        assert list(map(tuple, offsets.tolist())) == wanted.offsets
        assert ours.token_to_id(token) == reference.token_to_id(token)
        assert ours.truncate(f"{token}b", 1) == token


@pytest.mark.parametrize("size", [1, 2, 3, 5, 15, 16, 17, 100, 5000])
def test_lists(small_ranks, size: int) -> None:
    """A kernel reads them, and gives on what is not a list of ids; they may be longer than any buffer."""
    rng = random.Random(size)
    ids = rng.choices(range(END + 1), k=size)
    wanted = b"".join([small.TOKENS[id] if id < END else small.END.encode() for id in ids])
    assert small_ranks.decode_bytes(ids) == wanted
    assert small_ranks.decode(ids, errors="ignore") == wanted.decode("utf-8", "ignore")
    plain = b"".join(small.TOKENS[id] for id in ids if id < END)
    assert small_ranks.decode_bytes(ids, skip_special_tokens=True) == plain
    before = sys.getrefcount(ids[-1])
    for _ in range(20):
        small_ranks.decode_bytes(ids)
    after = sys.getrefcount(ids[-1])
    assert after == before
    for wrong, error in ((END + 1, ValueError), (1 << 40, ValueError), (1 << 70, ValueError), (-1, ValueError),
                         (1.0, TypeError), ("a", TypeError), (None, TypeError)):  # fmt: skip
        with pytest.raises(error, match=f"at position {size}"):
            small_ranks.decode([*ids, wrong])


def test_a_list_that_is_changed_meanwhile(small_ranks) -> None:
    """The kernel keeps the GIL, so it sees one state of it."""
    ids = [1, 2, 3] * 1000
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            ids.clear()
            ids.extend([1, 2, 3] * 1000)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        unit = b"".join(small.TOKENS[id] for id in (1, 2, 3))
        for _ in range(2000):
            assert small_ranks.decode_bytes(ids) in (b"", unit * 1000)
    finally:
        stop.set()
        thread.join()

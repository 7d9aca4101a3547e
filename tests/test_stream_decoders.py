"""Ids that come one by one: the text, joined, is that of decode, and nothing is given out that could change."""

import copy
import json
import pickle
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import small
import vocabularies
from numbatok import Tokenizer, decoders
from numbatok.added_tokens import AddedTokens
from numbatok.parts import Parts
from numbatok.vocabulary import Vocabulary

HELD = "\ufffd"


def joined(tokenizer: Tokenizer, ids: list[int], sizes: list[int], **options: Any) -> str:
    """The text of a stream that takes ids one by one (size 0) or several at once."""
    stream = tokenizer.stream_decoder(**options)
    text, place = [], 0
    for size in [*sizes, *[0] * len(ids)]:
        part = ids[place : place + max(size, 1)]
        if not part:
            break
        text.append(stream.feed(part[0] if size == 0 else part))
        place += len(part)
        # It is final: whatever comes, it begins so.
        assert tokenizer.decode(ids, **options).startswith("".join(text))
    return "".join([*text, stream.finish()])


def by_batch(tokenizer: Tokenizer, rows: list[list[int]], **options: Any) -> list[str]:
    """The texts of streams that go on in step, then with the rest of the longer ones."""
    streams = tokenizer.batch_stream_decoder(len(rows), **options)
    assert len(streams) == len(rows)
    texts = [""] * len(rows)
    shortest = min(map(len, rows), default=0)
    given_out = [streams.feed([row[place] for row in rows]) for place in range(shortest)]
    rest = [row[shortest:] for row in rows]
    edges = np.cumsum([0, *map(len, rest)])
    given_out += [streams.feed([id for row in rest for id in row], edges), streams.finish()]
    for data, begins in given_out:
        assert data.dtype == np.uint8
        for number in range(len(rows)):
            texts[number] += bytes(data[begins[number] : begins[number + 1]]).decode()
    return texts


@given(st.lists(st.integers(0, 655), max_size=40), st.lists(st.integers(0, 5)))
def test_any_ids(small_merges, ids: list[int], sizes: list[int]) -> None:
    """Tokens of parts of characters in any order."""
    assert joined(small_merges, ids, sizes) == small_merges.decode(ids)
    assert by_batch(small_merges, [ids, ids[::-1], [], ids[1:]]) == [
        small_merges.decode(row) for row in (ids, ids[::-1], [], ids[1:])
    ]


@given(st.binary(max_size=60))
def test_any_bytes(small_ranks, data: bytes) -> None:
    """Byte by byte: U+FFFD where decode has it."""
    ids = [small_ranks.token_to_id(bytes([byte])) for byte in data]
    assert joined(small_ranks, ids, []) == data.decode("utf-8", "replace")
    assert by_batch(small_ranks, [ids, ids]) == [data.decode("utf-8", "replace")] * 2


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("row", [row for row in vocabularies.ROWS if not row.refused], ids=lambda row: row.name)
def test_real_vocabularies(row: vocabularies.Row, skip: bool) -> None:
    """Ids of texts and random ids, with special tokens skipped or not."""
    tokenizer = row.tokenizer()
    rng = random.Random(row.name)
    known = [*tokenizer._vocabulary.ids.tolist(), *tokenizer._added.content_of]
    specials = list(tokenizer.special_tokens.values()) or known[:1]
    byte_ids = [tokenizer.token_to_id(f"<0x{byte:02X}>") for byte in range(128, 256)]
    rows = [tokenizer.encode(small.TEXT).tolist()]
    for _ in range(30):
        ids = rng.choices(known, k=rng.randint(0, 20))
        for place in rng.choices(range(20), k=4):
            ids[place:place] = rng.choices([id for id in byte_ids if id is not None] or specials, k=3)
        ids[3:3] = rng.choices(specials, k=2)
        rows.append(ids)
    wanted = tokenizer.decode_batch(rows, skip_special_tokens=skip)
    for ids, text in zip(rows, wanted, strict=True):
        assert joined(tokenizer, ids, rng.choices(range(6), k=20), skip_special_tokens=skip) == text
    assert by_batch(tokenizer, rows, skip_special_tokens=skip) == wanted


STEPS = [
    decoders.Replace("▁", " "),
    decoders.Replace("aba", "c"),
    decoders.Replace("b", ""),
    decoders.ByteFallback(),
    decoders.Fuse(),
    decoders.Strip(" ", 1, 0),
    decoders.Strip("a", 2, 2),
    decoders.Metaspace("▁", True),
    decoders.Metaspace("▁", False),
    decoders.Suffix("</w>"),
    decoders.Spaced(),
]
STRINGS = [
    "a",
    "b",
    "ab",
    "aba",
    "▁",
    "▁a",
    " a",
    "  ",
    "<0xE2>",
    "<0x82>",
    "<0xAC>",
    "<0x61>",
    "é",
    "a</w>",
    "</w>",
    "<0x",
]


@example([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Strip(" ", 1, 0)], ["<0xE2>", "▁"])
@given(st.lists(st.sampled_from(STEPS), max_size=5), st.lists(st.sampled_from(STRINGS), max_size=12))
def test_decoders(steps: list[decoders.Step], strings: list[str]) -> None:
    """Any steps over any strings."""
    from numbatok.stream_decoders import StreamDecoder, Strings

    decoder = tuple(steps) or (decoders.Fuse(),)
    tokens = {number: string.encode() for number, string in enumerate(STRINGS)}
    stream = StreamDecoder(Strings(tokens.get, frozenset(), len(tokens), decoder))
    for _ in range(2):  # a stream begins anew
        parts = [stream.feed(STRINGS.index(string)) for string in strings]
        whole = decoders.decode(strings, decoder)
        assert whole.startswith("".join(parts))
        assert "".join([*parts, stream.finish()]) == whole


def test_characters_are_held_back(gpt2) -> None:
    """At once what is whole, never a part of a character."""
    stream = gpt2.stream_decoder()
    euro = [gpt2.token_to_id(bytes([byte])) for byte in "€".encode()]
    assert [stream.feed(id) for id in euro] == ["", "", "€"]
    assert [stream.feed(np.uint32(euro[0])), stream.feed(15496), stream.finish()] == ["", HELD + "Hello", ""]
    assert [stream.feed(euro[:2]), stream.finish(), stream.feed(euro)] == ["", HELD, "€"]
    assert stream.feed([]) == ""
    assert gpt2.stream_decoder(skip_special_tokens=True).feed(50256) == ""


@given(
    st.lists(st.sampled_from(STEPS), max_size=4),
    st.lists(st.sampled_from(STRINGS), max_size=8),
    st.lists(st.sampled_from(STRINGS), max_size=4),
    st.integers(0, 8),
)
def test_copies(steps: list[decoders.Step], strings: list[str], others: list[str], place: int) -> None:
    """A copy made at any place goes on by itself, and so does the stream that it is of."""
    from numbatok.stream_decoders import StreamDecoder, Strings

    decoder = tuple(steps) or (decoders.Fuse(),)
    tokens = {number: string.encode() for number, string in enumerate(STRINGS)}
    stream = StreamDecoder(Strings(tokens.get, frozenset(), len(tokens), decoder))
    begun = [stream.feed(STRINGS.index(string)) for string in strings[:place]]
    for other in (stream.copy(), copy.copy(stream), copy.deepcopy(stream)):
        rest = [other.feed(STRINGS.index(string)) for string in others] + [other.finish()]
        assert "".join(begun + rest) == decoders.decode(strings[:place] + others, decoder)
    rest = [stream.feed(STRINGS.index(string)) for string in strings[place:]] + [stream.finish()]
    assert "".join(begun + rest) == decoders.decode(strings, decoder)


def test_copies_of_open_characters(gpt2) -> None:
    """A copy has its own part of a character; it cannot be pickled."""
    euro = [gpt2.token_to_id(bytes([byte])) for byte in "€".encode()]
    stream = gpt2.stream_decoder()
    stream.feed(euro[0])
    for other in (stream.copy(), copy.copy(stream), copy.deepcopy(stream)):
        assert [other.feed(euro[1]), other.feed(15496)] == ["", HELD + "Hello"]
    assert [stream.feed(euro[1]), stream.feed(euro[2]), stream.finish()] == ["", "€", ""]
    with pytest.raises(TypeError, match="a stream cannot be pickled"):
        pickle.dumps(stream)


def test_long_runs_of_bytes_in_batches() -> None:
    """Byte tokens in a row, more than two bytes count, are kept until one is there that is none."""
    tokens = [f"<0x{byte:02X}>" for byte in range(256)] + ["a", "▁"]
    model = Vocabulary.from_merges(
        {token.encode(): number for number, token in enumerate(tokens)}, [], unit="character", byte_fallback=True
    )
    steps = decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)
    tokenizer = Tokenizer(Parts(model, AddedTokens([]), (), decoder=steps))
    assert tokenizer.batch_stream_decoder(1)._tables is not None
    for last in (256, 0xE2):
        rows = [[257, 257, *[ord("b")] * 70_000, last], [257, 256]]
        assert by_batch(tokenizer, rows) == tokenizer.decode_batch(rows)


def test_batch_streams_begin_anew(gpt2) -> None:
    """Some of them, or all."""
    euro = [gpt2.token_to_id(bytes([byte])) for byte in "€".encode()]
    streams = gpt2.batch_stream_decoder(3)
    streams.feed([euro[0]] * 3)
    streams.reset([1])
    data, begins = streams.feed([15496] * 3)
    texts = [bytes(data[begins[i] : begins[i + 1]]).decode() for i in range(3)]
    assert texts == [HELD + "Hello", "Hello", HELD + "Hello"]
    streams.feed([euro[0], 15496, euro[0]])
    data, begins = streams.finish()
    assert (bytes(data).decode(), begins.tolist()) == (HELD * 2, [0, 3, 3, 6])
    assert streams.finish()[1].tolist() == [0] * 4
    empty = gpt2.batch_stream_decoder(0)
    assert empty.feed([])[1].tolist() == [0]


def test_errors(gpt2) -> None:
    """Ids that are none, counts that do not fit; streams stay where they stood."""
    euro = [gpt2.token_to_id(bytes([byte])) for byte in "€".encode()]
    stream = gpt2.stream_decoder()
    stream.feed(euro[:2])
    for wrong in (50257, -1, 1 << 40, [euro[2], 50257]):
        with pytest.raises(ValueError, match="not in this vocabulary of 50257 tokens"):
            stream.feed(wrong)
    for wrong in (True, 1.5, "a", None, [1.5]):
        with pytest.raises(TypeError, match="ids must be"):
            stream.feed(wrong)
    assert stream.feed(euro[2]) == "€"
    streams = gpt2.batch_stream_decoder(2)
    streams.feed([euro[0], euro[0]])
    for wrong, error in (([1], ValueError), ([1, 50257], ValueError), ([1.5, 2], TypeError)):
        with pytest.raises(error):
            streams.feed(wrong)
    for offsets in ([0, 1], [0, 2, 1], [1, 1, 2], [0.0, 1.0, 2.0]):
        with pytest.raises((TypeError, ValueError), match="offsets must"):
            streams.feed([1, 2], offsets)
    data, begins = streams.feed([*euro[1:], *euro[1:]], [0, 2, 4])
    assert (bytes(data).decode(), begins.tolist()) == ("€€", [0, 3, 6])
    with pytest.raises(IndexError):
        streams.reset([2])
    with pytest.raises(TypeError):
        streams.reset([0.5])
    for wrong, error in ((-1, ValueError), (True, TypeError), (1.0, TypeError)):
        with pytest.raises(error, match="count must be"):
            gpt2.batch_stream_decoder(wrong)


def test_sparse_ids() -> None:
    """Ids far apart, which no table holds."""
    model = small.tokenizer_json()
    vocab = model["model"]["vocab"]
    vocab[small.spell(small.TOKENS[-1])] = 4_000_000_000
    tokenizer = Tokenizer.from_str(json.dumps(model))
    ids = tokenizer.encode(small.TEXT).tolist()
    ids.append(4_000_000_000)
    assert joined(tokenizer, ids, []) == tokenizer.decode(ids)
    assert by_batch(tokenizer, [ids, ids[::-1]]) == tokenizer.decode_batch([ids, ids[::-1]])

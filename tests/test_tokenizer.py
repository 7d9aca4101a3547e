"""The API: what each method takes and gives, and what a tokenizer is besides: compared, hashed, copied, pickled."""

import copy
import pickle
import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import small
import texts
from numbatok import AddedToken, TokenBatch, Tokenizer, VocabularyError, get_encoding
from numbatok.added_tokens import AddedTokens
from numbatok.parts import Parts
from numbatok.patterns.known import WALKERS
from numbatok.patterns.rules import Split
from numbatok.vocabulary import Vocabulary
from support import engine_of, output_of

# --- encoding ---


def test_encode_gives_a_new_array(small_ranks) -> None:
    """uint32, one-dimensional, owned and writable: no later call changes it."""
    for text in ("", "Hello world", "Hello world " * 20_000):
        ids = small_ranks.encode(text)
        assert ids.dtype == np.uint32
        assert ids.ndim == 1
        assert ids.flags.owndata
        assert ids.flags.writeable
        kept = ids.copy()
        small_ranks.encode("something else entirely " * 100)
        assert np.array_equal(ids, kept)


def test_known_ids(gpt2) -> None:
    """GPT-2's ids of a few texts, as everybody knows them."""
    assert gpt2.encode("Hello world").tolist() == [15496, 995]
    assert gpt2.encode("Hello world<|endoftext|>").tolist() == [15496, 995, 50256]
    assert gpt2.encode("").tolist() == []
    assert gpt2.encode("<|endoftext|>", allowed_special=()).tolist() == [27, 91, 437, 1659, 5239, 91, 29]


@given(texts.well_formed)
def test_encode_count_and_pretokenize_agree(small_ranks, naive_ranks, text: str) -> None:
    """Every way to the same ids, and pieces that are encoded alone to the same ids."""
    expected = naive_ranks.encode(text)
    assert small_ranks.encode(text).tolist() == expected
    assert small_ranks.count(text) == len(expected)
    data = text.encode()
    edges = small_ranks.pretokenize(text)
    assert edges.dtype == np.int64
    assert edges[0] == 0
    assert edges[-1] == len(data)
    assert (np.diff(edges) > 0).all()
    pieces = [data[begin:end] for begin, end in pairwise(edges)]
    alone = small_ranks.encode_batch(pieces, allowed_special=())
    assert alone.ids.tolist() == small_ranks.encode(text, allowed_special=()).tolist()


@given(st.lists(texts.well_formed, max_size=12))
def test_a_batch_is_its_texts(small_ranks, naive_ranks, documents: list[str]) -> None:
    """Each document as if it were alone, whatever stands before it."""
    expected = [naive_ranks.encode(document) for document in documents]
    batch = small_ranks.encode_batch(documents)
    assert isinstance(batch, TokenBatch)
    assert batch.ids.dtype == np.uint32
    assert batch.offsets.dtype == np.int64
    assert batch.tolist() == expected
    assert small_ranks.count_batch(documents).tolist() == [len(ids) for ids in expected]
    assert small_ranks.decode_batch(batch) == documents


def test_iterables_of_texts(small_ranks) -> None:
    """Lists, tuples, generators, sets of one, dictionary keys, object arrays; of str and bytes mixed."""
    documents = ["Hello", b"world", "", "wörld", bytearray(b"x y"), b"", "😀"]
    expected = [small_ranks.encode(document).tolist() for document in documents]
    for make in (list, tuple, iter, lambda items: (item for item in items), lambda items: np.array(items, object)):
        assert small_ranks.encode_batch(make(documents)).tolist() == expected
        assert small_ranks.count_batch(make(documents)).tolist() == [len(ids) for ids in expected]
    assert small_ranks.encode_batch({"Hello": 1}).tolist() == expected[:1]
    assert small_ranks.encode_batch(np.array(["Hello", "wörld"])).tolist() == [expected[0], expected[3]]


def test_empty_batches(small_ranks) -> None:
    """No documents at all, and documents without text."""
    for nothing in ([], (), iter([])):
        batch = small_ranks.encode_batch(nothing)
        assert batch.tolist() == []
        assert batch.offsets.tolist() == [0]
    assert small_ranks.encode_batch(["", "", ""]).tolist() == [[], [], []]
    assert small_ranks.count_batch([]).tolist() == []
    assert small_ranks.count_batch(["", "x", ""]).tolist() == [0, 1, 0]
    assert small_ranks.pretokenize("").tolist() == [0]


@pytest.mark.parametrize("wrong", ["text", b"text", bytearray(b"t"), memoryview(b"t"), np.zeros(3, np.uint8), None, 5])
def test_one_text_is_no_batch(small_ranks, wrong: object) -> None:
    """A single text given for a batch is not taken for its characters."""
    for call in (small_ranks.encode_batch, small_ranks.count_batch):
        with pytest.raises(TypeError, match="texts must be an iterable of texts, not "):
            call(wrong)


def test_an_iterable_that_fails(small_ranks) -> None:
    """The generator's own exception comes through."""

    def failing():
        yield "a"
        raise LookupError("no more")

    with pytest.raises(LookupError, match="no more"):
        small_ranks.encode_batch(failing())
    assert small_ranks.encode("a").size == 1


def test_large_batches(small_ranks, naive_ranks) -> None:
    """Thousands of short documents between a few long ones."""
    rng = random.Random(6)
    documents = [texts.random_text(rng, rng.choice([0, 1, 3, 30])) for _ in range(5000)]
    documents[100] = texts.random_text(rng, 20_000)
    documents[4000] = "z" * 30_000
    batch = small_ranks.encode_batch(documents)
    for index in [*range(0, 5000, 7), 100, 4000]:
        if len(documents[index]) < 30_000:
            assert batch[index].tolist() == naive_ranks.encode(documents[index])
    assert small_ranks.decode_batch(batch) == documents
    assert np.array_equal(small_ranks.count_batch(documents), batch.lengths)


@pytest.mark.parametrize("length", [1, 1000, 65_535, 65_536, 65_537, 66_000, 300_000])
def test_more_ids_than_foreseen(small_ranks, length: int) -> None:
    """Text that gives an id a byte outgrows every buffer that was made for it."""
    text = "\x01" * length
    assert small_ranks.encode(text).tolist() == [small.ID_OF[b"\x01"]] * length
    assert small_ranks.encode("\x01 " * length)[::1].size == small_ranks.count("\x01 " * length)
    mixed = "".join(chr(1 + i % 8) + chr(0x4E00 + i % 5000) for i in range(length // 4 + 1))
    ids = small_ranks.encode(mixed)
    assert small_ranks.decode(ids) == mixed
    assert len(ids) == small_ranks.count(mixed)
    assert np.array_equal(small_ranks.encode_batch([mixed, text]).ids[: len(ids)], ids)


@pytest.mark.parametrize("errors", ["", "ignore", "Strict", None, 5])
def test_wrong_errors(small_ranks, errors: object) -> None:
    """Only the two ways there are, in every method, whatever the text."""
    for call in (small_ranks.encode, small_ranks.count, small_ranks.pretokenize):
        with pytest.raises(ValueError, match="errors must be 'strict' or 'replace', not"):
            call("x", errors=errors)
    for call in (small_ranks.encode_batch, small_ranks.count_batch):
        with pytest.raises(ValueError, match="errors must be 'strict' or 'replace', not"):
            call(["x"], errors=errors)


def test_special_tokens_around_a_text(small_ranks) -> None:
    """GPT-2 has no template, so adding special tokens adds none."""
    for add in (True, False):
        assert small_ranks.encode("x", add_special_tokens=add).tolist() == small_ranks.encode("x").tolist()
        assert small_ranks.encode_batch(["x"], add_special_tokens=add).tolist() == [small_ranks.encode("x").tolist()]
        assert small_ranks.count("x", add_special_tokens=add) == 1


def test_options_are_keyword_only(small_ranks) -> None:
    """So that they can be added to."""
    with pytest.raises(TypeError, match="positional"):
        small_ranks.encode("x", "y", True)
    with pytest.raises(TypeError, match="positional"):
        small_ranks.decode([1], "strict")


# --- vocabulary ---


def test_looking_tokens_up(gpt2) -> None:
    """By text, by bytes, by id; None for what is not there."""
    assert gpt2.token_to_id(" world") == gpt2.token_to_id(b" world") == 995
    assert gpt2.id_to_token(995) == b" world"
    assert gpt2.token_to_id("<|endoftext|>") == gpt2.token_to_id(b"<|endoftext|>") == 50256
    assert gpt2.id_to_token(np.uint16(995)) == gpt2.id_to_token(np.int64(995)) == b" world"
    assert gpt2.id_to_token(50256) == b"<|endoftext|>"
    assert gpt2.token_to_id(b"\xff") is not None
    for missing in ("", "no such token at all", b"no such token", "\ud800"):
        assert gpt2.token_to_id(missing) is None
    for missing in (50257, -1, 1 << 40):
        assert gpt2.id_to_token(missing) is None
    assert gpt2.vocab_size == 50257
    assert gpt2.special_tokens == {"<|endoftext|>": 50256}
    for wrong in (5, None, bytearray(b"a")):
        with pytest.raises(TypeError, match="token must be str or bytes, not"):
            gpt2.token_to_id(wrong)
    for wrong in ("5", None, 5.0, True, np.bool_(1), np.float64(1), np.timedelta64(5, "s"), [5], np.array([5])):
        with pytest.raises(TypeError, match="id must be an integer, not"):
            gpt2.id_to_token(wrong)


def test_every_token_has_its_id(small_ranks, small_merges) -> None:
    """The two look-ups are each other's inverse."""
    for tokenizer in (small_ranks, small_merges):
        for id in range(tokenizer.vocab_size):
            assert tokenizer.token_to_id(tokenizer.id_to_token(id)) == id or id == small.ADDED[small.END]


def test_name_and_repr(gpt2, small_ranks) -> None:
    """What it was loaded as, how large it is."""
    assert gpt2.name == "gpt2"
    assert repr(gpt2) == "<numbatok.Tokenizer 'gpt2', 50257 tokens, 1 special>"
    assert small_ranks.name == ""
    assert repr(small_ranks) == f"<numbatok.Tokenizer {len(small.TOKENS) + 1} tokens, 1 special>"


# --- identity ---


def test_equality_by_content(small_ranks, small_merges) -> None:
    """Two loads are equal, with one hash; anything that gives other ids, or special tokens, differs."""
    again = small.by_ranks()
    assert again == small_ranks
    assert hash(again) == hash(small_ranks)
    assert len({again, small_ranks, small.by_ranks()}) == 1
    assert small.by_merges() == small_merges
    assert hash(small.by_merges()) == hash(small_merges)
    others = [
        small_merges,
        small.by_ranks(AddedToken("<a>", len(small.TOKENS))),
        small.by_ranks(AddedToken(small.END, len(small.TOKENS), special=False)),
        Tokenizer(Parts(Vocabulary.from_ranks(small.TOKENS[:-1]), small_ranks._added, small.RULE)),
        Tokenizer(
            Parts(Vocabulary.from_ranks(small.TOKENS, range(1, len(small.TOKENS) + 1)), AddedTokens([]), small.RULE)
        ),
    ]
    for other in others:
        assert other != small_ranks
    assert small_ranks != "gpt2"


def test_spellings_of_one_rule_are_equal(small_ranks) -> None:
    """Tokenizers whose patterns split alike, whatever they were loaded as."""
    for rule in (rule for rule, walk in WALKERS.items() if walk == "r50k"):
        other = Tokenizer(Parts(small_ranks._vocabulary, small_ranks._added, rule, name="another name"))
        assert other == small_ranks
        assert hash(other) == hash(small_ranks)


def test_gpt2_from_both_sources(gpt2, gpt2_json: str) -> None:
    """The rank file and the ``tokenizer.json`` of GPT-2 are two vocabularies with the same tokens."""
    loaded = Tokenizer.from_str(gpt2_json)
    assert loaded.special_tokens == gpt2.special_tokens
    assert all(loaded.id_to_token(id) == gpt2.id_to_token(id) for id in range(50257))


def test_patterns_that_cannot_be_compiled_are_refused(small_ranks) -> None:
    """Named in the error, when the tokenizer is made."""
    with pytest.raises(VocabularyError, match=r"'\(\.\)\\\\1'.*not supported"):
        Tokenizer(Parts(small_ranks._vocabulary, small_ranks._added, (Split(r"(.)\1"),)))


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickling(naive_ranks, protocol: int) -> None:
    """By content, caches left behind: before the first use and after, the pickle is the same and so are the ids."""
    tokenizer = small.by_ranks()
    before = pickle.dumps(tokenizer, protocol)
    tokenizer.encode(small.TEXT * 20)
    after = pickle.dumps(tokenizer, protocol)
    assert len(after) == len(before)
    for content in (before, after):
        loaded = pickle.loads(content)
        assert loaded == tokenizer
        assert loaded.name == tokenizer.name
        assert loaded.encode(small.TEXT).tolist() == naive_ranks.encode(small.TEXT)


class Named(Tokenizer):
    """A subclass with an attribute of its own."""

    def __init__(self, parts: Parts, title: str) -> None:
        super().__init__(parts)
        self.title = title


def test_pickling_a_subclass() -> None:
    """What is loaded or copied is one too, with all that it had."""
    tokenizer = Named(small.by_ranks()._parts, "mine")
    expected = tokenizer.encode("x y").tolist()
    for other in (pickle.loads(pickle.dumps(tokenizer)), copy.copy(tokenizer), copy.deepcopy(tokenizer)):
        assert type(other) is Named
        assert (other.title, other) == ("mine", tokenizer)
        assert other.encode("x y").tolist() == expected


@pytest.mark.parametrize("wrong", ["gpt2", None, {"a": 1}])
def test_a_tokenizer_is_not_made_of_a_name(wrong: object) -> None:
    """The error says how one is loaded."""
    with pytest.raises(TypeError, match=r"get_encoding\(name\), Tokenizer.from_file\(path\)"):
        Tokenizer(wrong)


@pytest.mark.parametrize("wrong", [[], None, b"gpt2", 5])
def test_an_encoding_is_named_by_a_str(wrong: object) -> None:
    """TypeError for anything else."""
    with pytest.raises(TypeError, match="an encoding's name must be str, not"):
        get_encoding(wrong)


def test_pickles_of_both_kinds_of_vocabulary(small_merges, gpt2) -> None:
    """Merges and names come through."""
    for tokenizer in (small_merges, gpt2):
        loaded = pickle.loads(pickle.dumps(tokenizer))
        assert loaded == tokenizer
        assert repr(loaded) == repr(tokenizer)
        assert loaded.encode(small.TEXT).tolist() == tokenizer.encode(small.TEXT).tolist()


def test_copies(small_ranks, naive_ranks) -> None:
    """Shallow and deep copies work on their own."""
    small_ranks.encode("warm")
    for make in (copy.copy, copy.deepcopy):
        other = make(small_ranks)
        assert other == small_ranks
        assert other is not small_ranks
        assert other.encode(small.TEXT).tolist() == naive_ranks.encode(small.TEXT)


def test_hash_is_the_same_in_another_process() -> None:
    """What a pickle gives elsewhere is equal to what is loaded there."""
    code = """
        import pickle, sys
        import small
        loaded = pickle.loads(bytes.fromhex(sys.argv[1]))
        print(loaded == small.by_ranks(), hash(loaded) == hash(small.by_ranks()), loaded.encode("x y").tolist())
    """
    expected = small.by_ranks().encode("x y").tolist()
    # Without the tables the pickle would not fit a command line: this vocabulary's does.
    tokenizer = Tokenizer(Parts(Vocabulary.from_ranks(small.TOKENS), small.by_ranks()._added, small.RULE))
    assert output_of(code, pickle.dumps(tokenizer).hex()).strip() == f"True True {expected}"


def test_each_call_of_get_encoding_is_its_own() -> None:
    """Equal, and not the same object."""
    assert get_encoding("gpt2") == get_encoding("r50k_base")
    assert get_encoding("gpt2") is not get_encoding("gpt2")
    assert get_encoding("r50k_base").name == "r50k_base"


# --- after an exception ---


def test_no_exception_leaves_a_trace(naive_ranks) -> None:
    """Whatever went wrong in a call, the next one is right, and no scratch is lost to it for good."""
    tokenizer = small.by_ranks()
    text = "x " * 3000 + small.END
    for _ in range(20):
        for wrong in (b"\xff", None, "bad" + small.END):
            with pytest.raises((ValueError, TypeError)):
                tokenizer.encode(wrong, allowed_special=(), disallowed_special="all")
            with pytest.raises((ValueError, TypeError)):
                tokenizer.count_batch([text, wrong], allowed_special=(), disallowed_special="all")
        assert tokenizer.encode(text).tolist() == naive_ranks.encode(text)
        assert tokenizer.count(text) == len(naive_ranks.encode(text))
    assert len(engine_of(tokenizer).scratches.idle) >= 1

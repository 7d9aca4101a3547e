"""The options of a merge list's model, against ``tokenizers.models.BPE`` and the oracle."""

import itertools
import json
import pickle
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import models

import naive
import small
from conftest import data_file
from numbatok import Tokenizer, VocabularyError
from numbatok.added_tokens import AddedTokens
from numbatok.kernels import dtypes, merge
from numbatok.loading import byte_level
from numbatok.loading.spelled import split_json
from numbatok.parts import Parts
from numbatok.vocabulary import Options, Vocabulary
from support import address_of, array_of, engine_of, new_scratch
from texts import random_text

ALL_BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
CHARACTERS = ["a", "b", "é", "ß", "中", "文", "😀", "\n", "▁", "\x80", "\u07ff", "\u0800", "\uffff", "\U0010ffff"]


def tokenizer_of(
    ids: Mapping[str, int], merges: Sequence[tuple[str, str]], unit: str = "character", **options: Any
) -> Tokenizer:
    """A tokenizer whose model's strings are these; options as ``models.BPE`` names them."""
    to_bytes = byte_level.to_bytes if unit == "byte" else str.encode
    texts = {"unk": "unk_token", "prefix": "continuing_subword_prefix", "suffix": "end_of_word_suffix"}
    given = {ours: to_bytes(options.pop(theirs)) for ours, theirs in texts.items() if options.get(theirs) is not None}
    for theirs in texts.values():
        options.pop(theirs, None)
    vocabulary = Vocabulary.from_merges(
        {to_bytes(token): id for token, id in ids.items()},
        [(to_bytes(left), to_bytes(right)) for left, right in merges],
        unit=unit,
        whole_first=options.pop("ignore_merges", False),
        **given,
        **options,
    )
    return Tokenizer(Parts(vocabulary, AddedTokens([]), small.RULE))


class Model:
    """Calls the merging kernel of a tokenizer with one scratch."""

    def __init__(self, tokenizer: Tokenizer, seed: int = 1) -> None:
        self._engine = engine_of(tokenizer)
        self._scratch = new_scratch(tokenizer)
        self._scratch.record[dtypes.WORK_RANDOM] = seed

    def ids(self, pretoken: bytes) -> list[int]:
        """Ids of one pretoken."""
        needed = len(pretoken) * self._engine._view[dtypes.VIEW_IDS_PER_BYTE]
        if needed > len(self._scratch._arrays[dtypes.WORK_SYMBOLS]):
            self._scratch._set_merge_symbols(needed)
        text = array_of(pretoken + bytes(16))
        kernel = merge.merge_pretoken if self._engine._parts.vocabulary.is_plain else merge.merge_pretoken_by_options
        count = kernel(self._engine._view.address, self._scratch.address, address_of(text), len(pretoken))
        assert count >= 0
        return self._scratch._arrays[dtypes.WORK_SYMBOLS][:count].tolist()


def reference_of(ids: Mapping[str, int], merges: Sequence[tuple[str, str]], options: Mapping[str, Any]) -> models.BPE:
    """The reference's model; it takes no None."""
    return models.BPE(vocab=ids, merges=merges, **{name: value for name, value in options.items() if value is not None})


def reference_ids(model: models.BPE, pretoken: str) -> list[int]:
    """Ids that ``tokenizers`` gives one pretoken."""
    return [token.id for token in model.tokenize(pretoken)]


def random_model(rng: random.Random, options: dict[str, Any]) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Ids and merges over a few characters, with the prefix and suffix where a pretoken may have them."""
    prefix, suffix = options.get("continuing_subword_prefix") or "", options.get("end_of_word_suffix") or ""
    characters = rng.sample(CHARACTERS, rng.choice([1, 2, 4, 8]))
    tokens = [
        begin + character + end
        for character in characters
        for begin in dict.fromkeys(("", prefix))
        for end in dict.fromkeys(("", suffix))
        if rng.random() < 0.8
    ]
    if options.get("byte_fallback"):
        tokens += ALL_BYTES if rng.random() < 0.6 else rng.sample(ALL_BYTES, 200)
    if options.get("unk_token"):
        tokens.append(options["unk_token"])
    if rng.random() < 0.2 and prefix:
        tokens.append(prefix)  # a merge with it makes its own left part
    tokens = list(dict.fromkeys(tokens)) or ["a"]
    merges = []
    parts = list(tokens)
    for _ in range(rng.randint(0, 60)):
        left, right = rng.choice(parts), rng.choice(parts)
        if (suffix and left.endswith(suffix)) or (prefix and not right.startswith(prefix)) or len(left + right) > 60:
            continue
        merges.append((left, right))
        parts.append(left + right[len(prefix) :])
    tokens = list(dict.fromkeys(tokens + parts))
    return dict(zip(tokens, rng.sample(range(1 << 16), len(tokens)), strict=True)), merges


def random_pretoken(rng: random.Random, ids: Mapping[str, int], longest: int) -> str:
    """Characters that the vocabulary has, and some that it has not."""
    known = [token for token in ids if len(token) <= 3]
    return "".join(rng.choices([*known, *CHARACTERS], k=rng.randint(1, longest)))


EVERY_OPTION = [
    {
        "unk_token": unk,
        "fuse_unk": fuse,
        "byte_fallback": fallback,
        "continuing_subword_prefix": prefix,
        "end_of_word_suffix": suffix,
        "ignore_merges": whole,
    }
    for unk, fuse in [(None, False), ("<unk>", False), ("<unk>", True)]
    for fallback, prefix, suffix, whole in itertools.product(
        [False, True], [None, "##"], [None, "</w>", "é"], [False, True]
    )
]


@pytest.mark.parametrize("seed", range(4))
def test_every_combination_by_character(seed: int) -> None:
    """Each combination of the options, on models and pretokens of every shape, for reference, oracle and kernel."""
    rng = random.Random(seed)
    for options in EVERY_OPTION:
        ids, merges = random_model(rng, options)
        reference = reference_of(ids, merges, options)
        model = Model(tokenizer_of(ids, merges, **options))
        oracle = naive.Model(ids, merges, **options)
        for longest in (1, 2, 5, 5, 20, 90):
            pretoken = random_pretoken(rng, ids, longest)
            expected = reference_ids(reference, pretoken)
            assert model.ids(pretoken.encode()) == expected, (options, pretoken)
            if ("##" not in ids) or options["continuing_subword_prefix"] is None:
                assert oracle.encode(pretoken) == expected, (options, pretoken)


@pytest.mark.parametrize("seed", range(4))
def test_every_combination_by_byte(seed: int) -> None:
    """The same where the model sees the byte alphabet, some of whose characters it lacks."""
    rng = random.Random(100 + seed)
    for options in EVERY_OPTION:
        options = {**options, "end_of_word_suffix": options["end_of_word_suffix"] and "</w>"}
        prefix, suffix = options["continuing_subword_prefix"] or "", options["end_of_word_suffix"] or ""
        letters = rng.sample(list(small.ALPHABET.values()), rng.choice([1, 3, 50, 255, 256]))
        tokens = [
            begin + letter + end
            for letter in letters
            for begin in dict.fromkeys(("", prefix))
            for end in dict.fromkeys(("", suffix))
        ]
        tokens += ALL_BYTES if options["byte_fallback"] else []
        tokens += [options["unk_token"]] if options["unk_token"] else []
        tokens = list(dict.fromkeys(tokens))
        pairs = [(rng.choice(tokens[:50]), rng.choice(tokens[:50])) for _ in range(30)]
        merges = [
            (left, right)
            for left, right in pairs
            if right.startswith(prefix) and right != prefix and not (suffix and left.endswith(suffix))
        ]
        tokens = list(dict.fromkeys(tokens + [left + right[len(prefix) :] for left, right in merges]))
        ids = dict(zip(tokens, rng.sample(range(1 << 16), len(tokens)), strict=True))
        reference = reference_of(ids, merges, options)
        model = Model(tokenizer_of(ids, merges, "byte", **options))
        known = [byte_level.to_bytes(letter) for letter in letters]
        for longest in (1, 2, 5, 20, 100):
            pretoken = b"".join(rng.choices([*known, *known, b"z", b"\xff", b" "], k=rng.randint(1, longest)))
            expected = reference_ids(reference, byte_level.spell(pretoken))
            assert model.ids(pretoken) == expected, (options, pretoken)


@settings(max_examples=60)
@given(st.text(max_size=80), st.sampled_from(EVERY_OPTION), st.integers(0, 1 << 32))
def test_any_text(text: str, options: dict[str, Any], seed: int) -> None:
    """Any characters at all, most of them unknown."""
    if not text:
        return
    rng = random.Random(seed)
    ids, merges = random_model(rng, options)
    reference = reference_of(ids, merges, options)
    assert Model(tokenizer_of(ids, merges, **options)).ids(text.encode()) == reference_ids(reference, text)


@pytest.mark.parametrize("options", EVERY_OPTION, ids=str)
def test_through_the_cache(options: dict[str, Any]) -> None:
    """Whole texts, twice: pretokens with no ids, and with more ids than bytes, through cache, arena and output."""
    rng = random.Random(5)
    ids, merges = random_model(rng, options)
    reference = reference_of(ids, merges, options)
    tokenizer = tokenizer_of(ids, merges, **options)
    text = " ".join(random_pretoken(rng, ids, 12) for _ in range(300)) + "文" * 300 + " x" + "q" * 20_000
    expected = [id for pretoken in naive.split(text) for id in reference_ids(reference, pretoken)]
    for _ in range(2):
        assert tokenizer.encode(text).tolist() == expected
        assert tokenizer.encode_batch([text, "", text]).ids.tolist() == 2 * expected
        assert tokenizer.count(text) == len(expected)


def test_byte_tokens_that_merge() -> None:
    """The byte tokens of a character merge like others, as do unknown tokens; `<0x0a>` is no byte token."""
    ids = {token: id for id, token in enumerate([*ALL_BYTES, "<0x61><0x62>", "u", "uu", "<0x0a>"])}
    merges = [("<0x61>", "<0x62>"), ("u", "u")]
    model = Model(tokenizer_of(ids, merges, byte_fallback=True))
    assert model.ids(b"aabz") == [0x61, 256, ord("z")]
    unknown = Model(tokenizer_of(ids, merges, unk_token="u"))
    assert unknown.ids(b"aabu") == [ids["uu"], ids["uu"]]
    lower = {"<0x0a>": 0}
    assert Model(tokenizer_of(lower, [], byte_fallback=True)).ids(b"\n") == []


def test_unknown_tokens_wait() -> None:
    """Byte tokens overtake an unknown token that stands before them."""
    ids = {"a": 0, "?": 1, "<0x63>": 2}
    model = Model(tokenizer_of(ids, [], unk_token="?", fuse_unk=True, byte_fallback=True))
    reference = models.BPE(vocab=ids, merges=[], unk_token="?", fuse_unk=True, byte_fallback=True)
    for pretoken, expected in [("xc", [2, 1]), ("xcyc", [2, 2, 1]), ("xcay", [2, 1, 0, 1]), ("cx", [2, 1])]:
        assert reference_ids(reference, pretoken) == model.ids(pretoken.encode()) == expected


def test_a_merge_that_makes_its_own_left_part() -> None:
    """With the prefix itself as a token, `a ##` makes `a`, and the reference follows what it noted before."""
    options = {"continuing_subword_prefix": "##", "unk_token": "##"}
    ids = {"a": 0, "##": 1, "##b": 2, "ab": 3, "##bb": 4, "abb": 5}
    rng = random.Random(3)
    merges = [("a", "##"), ("a", "##b"), ("##b", "##"), ("##b", "##b"), ("a", "##bb"), ("ab", "##b"), ("##", "##")]
    for _ in range(200):
        rng.shuffle(merges)
        reference = reference_of(ids, merges[:5], options)
        model = Model(tokenizer_of(ids, merges[:5], **options))
        for _ in range(5):
            pretoken = "".join(rng.choices("abc", k=rng.randint(1, 9)))
            assert model.ids(pretoken.encode()) == reference_ids(reference, pretoken)


@pytest.mark.parametrize("unit", ["byte", "character"])
def test_long_pretokens(unit: str) -> None:
    """A megabyte in one piece takes n log n: in a second or two, on any machine."""
    options = {"unk_token": "?", "fuse_unk": False, "end_of_word_suffix": "</w>"}
    tokens = ["a", "b", "aa", "aaaa", "ab", "?", "a</w>", "b</w>", "aa</w>"]
    merges = [("a", "a"), ("a", "b"), ("aa", "aa"), ("a", "a</w>")]
    ids = {token: id for id, token in enumerate(tokens)}
    reference = reference_of(ids, merges, options)
    model = Model(tokenizer_of(ids, merges, unit, **options))
    rng = random.Random(2)
    for pretoken in ("a" * (1 << 20), "x" * (1 << 20), "".join(rng.choices("abx", k=1 << 20))):
        assert model.ids(pretoken.encode()) == reference_ids(reference, pretoken)


# --- dropout ---------------------------------------------------------------------------------------------------------

WORD = "abababcabc"
WORD_MERGES = [("a", "b"), ("b", "a"), ("ab", "c"), ("ab", "ab"), ("c", "a"), ("b", "c"), ("abc", "ab"), ("ba", "b")]
WORD_IDS = {
    token: id
    for id, token in enumerate(dict.fromkeys(["a", "b", "c", "?", *(left + right for left, right in WORD_MERGES)]))
}
OF_ID = {id: token for token, id in WORD_IDS.items()}


@pytest.mark.parametrize("dropout", [0.1, 0.3, 0.5, 0.9])
def test_dropout_is_distributed_as_in_the_reference(dropout: float) -> None:
    """Each segmentation of a word comes as often, within five standard deviations."""
    times = 20_000
    reference = models.BPE(vocab=WORD_IDS, merges=WORD_MERGES, dropout=dropout)
    model = Model(tokenizer_of(WORD_IDS, WORD_MERGES, dropout=dropout), seed=4)
    ours = Counter(tuple(model.ids(WORD.encode())) for _ in range(times))
    theirs = Counter(tuple(reference_ids(reference, WORD)) for _ in range(times))
    for ids in ours.keys() | theirs.keys():
        assert "".join(OF_ID[id] for id in ids) == WORD
        deviation = (ours[ids] + theirs[ids]) ** 0.5
        assert abs(ours[ids] - theirs[ids]) <= 5 * deviation + 3, ids


def test_dropout_of_long_pretokens() -> None:
    """The number of ids of a long piece, on average, within a percent of the reference."""
    text = "".join(random.Random(1).choices("abc", k=50_000))
    reference = models.BPE(vocab=WORD_IDS, merges=WORD_MERGES, dropout=0.2)
    ours = Model(tokenizer_of(WORD_IDS, WORD_MERGES, dropout=0.2)).ids(text.encode())
    assert "".join(OF_ID[id] for id in ours) == text
    assert abs(len(ours) / len(reference_ids(reference, text)) - 1) < 0.01


def test_dropout_of_one_merges_nothing_and_of_nearly_nothing_everything() -> None:
    """The ends of the range; whole tokens first is not asked for while merges may be put off."""
    for whole in (False, True):
        model = Model(tokenizer_of(WORD_IDS, WORD_MERGES, dropout=1.0, ignore_merges=whole))
        assert model.ids(b"abc" * 100) == [WORD_IDS[letter] for letter in "abc" * 100]
        assert (
            models.BPE(vocab=WORD_IDS, merges=WORD_MERGES, dropout=1.0, ignore_merges=whole).tokenize("abc")[0].id == 0
        )
    without = Model(tokenizer_of(WORD_IDS, WORD_MERGES))
    for dropout in (0.0, 1e-50):
        tokenizer = tokenizer_of(WORD_IDS, WORD_MERGES, dropout=dropout)
        assert Model(tokenizer).ids(WORD.encode()) == without.ids(WORD.encode())
        tokenizer.encode(WORD)
        tokenizer.encode(WORD)
        assert engine_of(tokenizer).scratches.idle[0].record[dtypes.WORK_MISSES] == 1, "cached"


def test_dropout_draws_anew_each_time_and_can_be_seeded() -> None:
    """No cache answers, whatever the length; the same seed gives the same ids."""
    tokenizer = tokenizer_of(WORD_IDS, WORD_MERGES, "byte", dropout=0.98)
    for text in (WORD, WORD * 2, WORD * 30, WORD * 100):
        engine_of(tokenizer).scratches.seed(5)
        seen = [tuple(tokenizer.encode(text).tolist()) for _ in range(50)]
        assert len(set(seen)) > 2
        assert {"".join(OF_ID[id] for id in ids) for ids in seen} == {text}
        assert engine_of(tokenizer).scratches.idle[0].record[dtypes.WORK_MISSES] == 50
        engine_of(tokenizer).scratches.seed(5)
        assert [tuple(tokenizer.encode(text).tolist()) for _ in range(50)] == seen
    for seed in (6, None, None):
        engine_of(tokenizer).scratches.seed(seed)
        assert tuple(tokenizer.encode(WORD * 100).tolist()) not in seen


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dropout": 1.5}, r"dropout is 1\.5; wanted a probability, from 0 to 1"),
        ({"dropout": -0.1}, r"dropout is -0\.1"),
        ({"dropout": float("nan")}, "dropout is nan"),
        ({"unk_token": "<unk>"}, r"the unknown token b'<unk>' is not in the vocabulary"),
        ({"unit": "word"}, r"the unit is 'word'; wanted \"byte\" or \"character\""),
        ({"continuing_subword_prefix": "x" * 256}, "the prefix has 256 bytes; at most 255"),
        ({"end_of_word_suffix": "x" * 256}, "the suffix has 256 bytes; at most 255"),
        ({"continuing_subword_prefix": "##"}, r"merge 0 \(b'a' with b'b'\) needs the token b'a'|needs the token"),
    ],
)
def test_refusals(options: dict[str, Any], message: str) -> None:
    """Each names what was given and what is wanted."""
    ids = {"b": 0, "ab": 1, "a": 2} if "continuing_subword_prefix" not in options else {"b": 0, "ab": 1}
    with pytest.raises(VocabularyError, match=message):
        tokenizer_of(ids, [("a", "b")], **options)


def test_options_are_part_of_the_content() -> None:
    """Equality, hash and pickles go by the options too."""
    ids, merges = {b"a": 0, b"b": 1, b"ab": 2}, [(b"a", b"b")]
    plain = Vocabulary.from_merges(ids, merges)
    dropping = Vocabulary.from_merges(ids, merges, dropout=0.5, unit="character", unk=b"a")
    assert plain == Vocabulary.from_merges(ids, merges)
    assert plain != dropping
    assert pickle.loads(pickle.dumps(dropping)) == dropping
    assert dropping.options == Options("character", b"a", dropout=0.5)
    assert hash(pickle.loads(pickle.dumps(dropping))) == hash(dropping)


# --- real vocabularies ----------------------------------------------------------------------------------------------

OPTION_NAMES = "unk_token fuse_unk byte_fallback continuing_subword_prefix end_of_word_suffix ignore_merges".split()


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("clip_hf", "byte"),
        ("phi3_mini", "character"),
        ("re_llama2", "character"),
        pytest.param("lenml_gemma3", "character", marks=pytest.mark.slow),
        ("chatglm", "character"),
    ],
)
def test_real_vocabularies(name: str, unit: str) -> None:
    """Words of many scripts, whole documents and random characters under vocabularies in use."""
    given = json.loads(data_file(f"vocab/{name}/tokenizer.json"))["model"]
    merges = [tuple(pair.split(" ")) if isinstance(pair, str) else tuple(pair) for pair in given["merges"]]
    options = {key: given[key] for key in OPTION_NAMES if given.get(key) is not None}
    reference = reference_of(given["vocab"], merges, options)
    model = Model(tokenizer_of(given["vocab"], merges, unit, **options))
    rng = random.Random(6)
    pretokens = [random_text(rng, rng.choice([1, 3, 10, 100])) for _ in range(400)]
    for script in ("english", "code", "chinese", "japanese", "arabic", "hindi", "thai"):
        text = data_file(f"corpus-small/{script}.txt").decode()[:200_000]
        pretokens.append(text.replace(" ", "▁"))
        pretokens += naive.split(text[:5000])
    for pretoken in dict.fromkeys(pretokens):
        given_text = byte_level.spell(pretoken.encode()) if unit == "byte" else pretoken
        assert model.ids(pretoken.encode()) == reference_ids(reference, given_text), pretoken[:100]


# --- from the strings of a file -------------------------------------------------------------------------------------


def both_ways(vocab: dict[str, int], merges: list[Any], **options: Any) -> Vocabulary:
    """A vocabulary from the JSON of its merges, and from the list, which must be the same."""
    dumped = [
        json.dumps(merges),
        json.dumps(merges, ensure_ascii=False, indent=1),
        json.dumps(merges).replace(",", " ,"),
    ]
    made = [
        Vocabulary.from_spelled(vocab, content.encode("utf-8", "surrogatepass"), **options) for content in dumped[:2]
    ]
    if not any("," in part for merge in merges for part in merge):
        made.append(Vocabulary.from_spelled(vocab, dumped[2].encode(), **options))
    made.append(Vocabulary.from_spelled(vocab, merges, **options))
    assert all(vocabulary == made[0] for vocabulary in made)
    return made[0]


STRANGE_MERGES = list(pairwise('"\\/\n\t\r\b\f\x7f\x00é中😀\U0010ffffa'))[::2]


@pytest.mark.parametrize("as_strings", [False, True])
def test_escapes_in_merges(as_strings: bool) -> None:
    """Everything that JSON can escape, in both forms of a merge."""
    parts = [part for pair in STRANGE_MERGES for part in pair]
    vocab = {token: id for id, token in enumerate([*parts, *(left + right for left, right in STRANGE_MERGES)])}
    merges = [" ".join(pair) for pair in STRANGE_MERGES] if as_strings else [list(pair) for pair in STRANGE_MERGES]
    vocabulary = both_ways(vocab, merges, unit="character")
    expected = [[vocab[left], vocab[right], vocab[left + right]] for left, right in STRANGE_MERGES]
    assert vocabulary.merges is not None
    assert vocabulary.merges.tolist() == expected
    assert vocabulary.tokens == [token.encode() for token in vocab]
    assert both_ways(vocab, [], unit="character").merges.tolist() == []


def test_spelled_is_as_by_bytes() -> None:
    """The small vocabulary, and one with tokens outside the byte alphabet, ids in any order."""
    given = small.tokenizer_json()["model"]
    ids = {byte_level.to_bytes(token): id for token, id in given["vocab"].items()}
    pairs = [tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) for merge in given["merges"]]
    merges = [(byte_level.to_bytes(left), byte_level.to_bytes(right)) for left, right in pairs]
    assert both_ways(given["vocab"], [list(pair) for pair in pairs]) == Vocabulary.from_merges(ids, merges)
    assert both_ways(given["vocab"], [" ".join(pair) for pair in pairs]) == Vocabulary.from_merges(ids, merges)
    strange = {"Ġ": 9, "▁": 3, "a▁": 5, "È": 2, "ȀÈ": 7, "ÈÈ": 1, "a b": 8, "\x80": 4, "ǿ": 6, "ÿ": 0}
    vocabulary = Vocabulary.from_spelled(strange, b'["\\u00c8 \\u00c8"]')
    assert vocabulary.id_of == {byte_level.to_bytes(token): id for token, id in strange.items()}
    assert vocabulary.merges is not None
    assert vocabulary.ids[vocabulary.merges].tolist() == [[2, 2, 1]]


def test_a_merge_is_made_of_spellings() -> None:
    """A token outside the byte alphabet is its UTF-8, and what is made with it too."""
    vocab = {"▁": 0, "Ġ": 1, "▁Ġ": 2, "a": 3, "##a": 4, "aa": 5}
    assert both_ways(vocab, ["▁ Ġ"]).merges.tolist() == [[0, 1, 2]]
    assert both_ways(vocab, ["a ##a"], prefix="##").merges.tolist() == [[3, 4, 5]]
    assert both_ways(vocab, [["a", "▁Ġ"]] * 0, prefix="##").merges.tolist() == []


BAD_MERGES = [
    ([["a"]], r"merge 0 is \['a'\]; wanted two tokens"),
    (["ab"], r"merge 0 is 'ab'; wanted two tokens"),
    (["a b", "a b "], r"merge 1 is 'a b '"),
    (["a b", "a  b"], r"merge 1 is 'a  b'"),
    (["a b", 5], "merge 1 is 5"),
    ([None], "merge 0 is None"),
    ([["a", 5]], r"merge 0 is \['a', 5\]"),
    ([["a", "b", "c"]], r"merge 0 is \['a', 'b', 'c'\]"),
    (["a b", ["a", "b"], ["a"]], r"merge 2 is \['a'\]"),
    ([{"a": "b"}], r"merge 0 is \{'a': 'b'\}"),
    (["a x"], r"merge 0 \('a x'\) needs 'x', which is not in the vocab"),
    (["x a"], r"needs 'x'"),
    (["b a"], r"needs 'ba'"),
    ([["a", "\ud800"]], r"needs '\\ud800'"),
    ([["", "a"]], "needs ''"),
    (["é b"], "needs 'é'"),
]


@pytest.mark.parametrize(("merges", "message"), BAD_MERGES)
def test_bad_merges(merges: list[Any], message: str) -> None:
    """The same error from the JSON and from the list."""
    vocab = {"a": 0, "b": 1, "ab": 2}
    for content in (merges, json.dumps(merges).encode(), json.dumps(merges, indent=2).encode()):
        with pytest.raises(VocabularyError, match=message):
            Vocabulary.from_spelled(vocab, content)


def test_mixed_forms_of_merges() -> None:
    """Strings and lists in one file are read as they come, from JSON."""
    assert Vocabulary.from_spelled({"a": 0, "b": 1, "ab": 2}, b'["a b", ["a","b"]]').merges.tolist() == [[0, 1, 2]] * 2


@pytest.mark.parametrize(
    ("vocab", "options", "message"),
    [
        ({"a": 0, "b": 0}, {}, "id 0 is given to two tokens, 'a' and 'b'"),
        ({"a": -1}, {}, "id -1 is not between"),
        ({"a": 1 << 32}, {}, "id 4294967296 is not between"),
        ({"a": 1 << 99}, {}, "is not between"),
        ({"a": True}, {}, "vocab gives 'a' the id True; wanted an integer"),
        ({"a": "1"}, {}, "vocab gives 'a' the id '1'"),
        ({"": 0}, {}, "the empty token"),
        ({"\ud800": 0}, {}, "lone surrogate"),
        ({"âĸģ": 0, "▁": 1}, {}, "two tokens of the vocab stand for the same bytes, 'âĸģ' and '▁'"),
        ({"a": 0}, {"unk": "?"}, "the unknown token '\\?' is not in the vocabulary"),
        ({"a": 0}, {"prefix": "##"}, r"its right part is shorter than the prefix of 2 bytes"),
    ],
)
def test_bad_vocabularies(vocab: dict[str, Any], options: dict[str, Any], message: str) -> None:
    """Each error names what is wrong."""
    with pytest.raises(VocabularyError, match=message):
        Vocabulary.from_spelled(vocab, b'["a a"]' if "prefix" in options else b"[]", **options)


SPLIT_CONTENTS = [
    '{"model": {"vocab": {"merges": 1, "]": 2, "\\"[": 3}, "merges": ["a b", ["]", "\\"]"]]}, "x": [1, {"y": []}]}',
    '{"merges": [1], "model" : {"merges" : [], "z": {"merges": [2]}}}',
    '{"model": {"merges": [[["deep"]]]}}',
    '{"model": {"a": "merges", "merges": ["x"]}}',
    '{"model": {"merges": {}}}',
    '{"model": {"merges": [1], "merges": [2]}}',
    '{"model": {"merges": ["\\\\"]}}',
    '{"model": []}',
    '{"model": "merges", "merge": [1]}',
    "{}",
    "[]",
    "5",
]


@pytest.mark.parametrize("content", SPLIT_CONTENTS)
def test_split_json(content: str) -> None:
    """The parts put together are the whole."""
    value, merges = split_json(content.encode())
    if merges is not None:
        assert value["model"]["merges"] == []
        value["model"]["merges"] = json.loads(merges)
    assert value == json.loads(content)


@given(st.integers(0, 1 << 32))
def test_split_damaged_json(seed: int) -> None:
    """A damaged file gives the error that ``json`` gives, or the value, and damaged merges an error or the value."""
    rng = random.Random(seed)
    content = bytearray(SPLIT_CONTENTS[0].encode())
    for _ in range(rng.randint(1, 3)):
        place = rng.randrange(len(content))
        content[place : place + rng.randint(0, 2)] = rng.choice(
            [b'"', b"[", b"]", b"{", b"}", b"\\", b",", b"", b"\xff"]
        )
    try:
        expected = json.loads(bytes(content))
    except ValueError as error:
        with pytest.raises(type(error)):
            json.loads(split_json(bytes(content))[1] or b"[]")
        return
    value, merges = split_json(bytes(content))
    if merges is not None:
        value["model"]["merges"] = json.loads(merges)
    assert value == expected


@given(st.integers(0, 1 << 32))
def test_damaged_merges(seed: int) -> None:
    """Whatever the JSON of the merges holds: what Python reads in it, or an error."""
    rng = random.Random(seed)
    vocab = {"a": 0, "b": 1, "ab": 2, "é": 3, "éa": 4, '"': 5, '"a': 6}
    content = bytearray(b'["a b",["\\u00e9","a"], "\xc3\xa9 a" , [ "\\"" , "a" ] ]')
    for _ in range(rng.randint(0, 2)):
        place = rng.randrange(len(content))
        content[place : place + rng.randint(0, 3)] = bytes(rng.choices(b'"[],\\ ab\xc3u0\n', k=rng.randint(0, 3)))
    try:
        expected = Vocabulary.from_spelled(
            vocab, [list(m.split(" ")) if isinstance(m, str) else m for m in json.loads(bytes(content))]
        )
    except (ValueError, TypeError):
        with pytest.raises((ValueError, TypeError)):
            Vocabulary.from_spelled(vocab, bytes(content))
    else:
        assert Vocabulary.from_spelled(vocab, bytes(content)) == expected


def test_with_dropout(gpt2) -> None:
    """A tokenizer with other merges each time, the same for one seed; the one it was made of stays as it is."""
    text = "unbelievable tokenization, undoubtedly " * 20
    first, second = gpt2.with_dropout(0.5, seed=7), gpt2.with_dropout(0.5, seed=7)
    drawn = [first.encode(text).tolist() for _ in range(3)]
    assert drawn == [second.encode(text).tolist() for _ in range(3)]
    assert drawn[0] != drawn[1]
    assert all(gpt2.decode(ids) == text for ids in drawn)
    assert gpt2.with_dropout(0).encode(text).tolist() == gpt2.encode(text).tolist()
    assert len(gpt2.with_dropout(1).encode(text)) == len(text)
    with pytest.raises(ValueError, match="dropout is 2"):
        gpt2.with_dropout(2)

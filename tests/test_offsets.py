"""Offsets of ids, against ``tokenizers``: every real vocabulary, every normalizer, option and post-processor."""

import dataclasses
import json
import pickle
import random
from typing import Any

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import models, normalizers, pre_tokenizers, processors

import numbatok
import numbatok.normalizers as ours_of
import small
import texts
import vocabularies
from conftest import TEST_DATA
from numbatok import TokenBatch, Tokenizer
from test_added_flags import CONTENTS, FLAGS, NORMALIZERS, PIECES, both
from test_model_options import EVERY_OPTION, random_model, random_pretoken

REGEX = tokenizers.Regex
#: The reference's normalizer and ours.
EVERY_NORMALIZER = {
    "NFC": (normalizers.NFC(), ours_of.NFC()),
    "NFD": (normalizers.NFD(), ours_of.NFD()),
    "NFKC": (normalizers.NFKC(), ours_of.NFKC()),
    "NFKD": (normalizers.NFKD(), ours_of.NFKD()),
    "Lowercase": (normalizers.Lowercase(), ours_of.Lowercase()),
    "StripAccents": (normalizers.StripAccents(), ours_of.StripAccents()),
    "Strip": (normalizers.Strip(), ours_of.Strip()),
    "Strip left": (normalizers.Strip(True, False), ours_of.Strip(True, False)),
    "Prepend": (normalizers.Prepend("ab"), ours_of.Prepend("ab")),
    "one for one": (normalizers.Replace(" ", "▁"), ours_of.Replace(" ", "▁")),
    "longer": (normalizers.Replace("ab", "xyz"), ours_of.Replace("ab", "xyz")),
    "the same": (normalizers.Replace("aa", "aa"), ours_of.Replace("aa", "aa")),
    "removed": (normalizers.Replace(REGEX(r"\s+"), ""), ours_of.Replace(r"\s+", "", True)),
    "regex": (normalizers.Replace(REGEX(r"\s+"), "é "), ours_of.Replace(r"\s+", "é ", True)),
    "regex, the same": (normalizers.Replace(REGEX("[ab]{2}"), "ab"), ours_of.Replace("[ab]{2}", "ab", True)),
    "Llama": (
        normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
        ours_of.Sequence((ours_of.Prepend("▁"), ours_of.Replace(" ", "▁"))),
    ),
    "all": (
        normalizers.Sequence(
            [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Prepend("▁▁")]
        ),
        ours_of.Sequence((ours_of.NFKD(), ours_of.StripAccents(), ours_of.Lowercase(), ours_of.Prepend("▁▁"))),
    ),
}
MARKS = [
    *"\u0300\u0301\u0323\u0334\u0345\u0344\u0f71\u0f72\u0f73\u0f74\u3099\u309a\u1100\u1161\u11a8\u0c46\u0c56\u1025\u102e",
    *"aáéÅﬁ각ẛşb\u0130e oㄱｶﾞ",
]


def edges(text: str) -> np.ndarray:
    """Where each character begins in the UTF-8 of a text, and the last one ends."""
    return np.cumsum([0, *(len(character.encode()) for character in text)])


def assert_as_reference(ours: Tokenizer, reference: tokenizers.Tokenizer, samples: list[str], **options: Any) -> None:
    """The offsets of texts in both units, in a batch and, of some, one by one."""
    by_unit = {unit: ours.encode_batch(samples, return_offsets=unit, **options) for unit in ("char", "byte")}
    for number, (text, wanted) in enumerate(zip(samples, reference.encode_batch(samples, **options), strict=True)):
        expected = np.array(wanted.offsets, np.int64).reshape(-1, 2)
        assert by_unit["char"][number].tolist() == wanted.ids
        for unit, batch in by_unit.items():
            found = batch.token_offsets[batch.offsets[number] : batch.offsets[number + 1]]
            # What the reference leaves unconverted may be beyond the text.
            if unit == "byte" and len(expected) and expected.max() <= len(text):
                expected = edges(text)[expected]
            elif unit == "byte":
                continue
            assert found.tolist() == expected.tolist(), (text, unit, wanted.tokens)
            if len(text) < 1000 and number % 5 == 0:
                ids, alone = ours.encode_with_offsets(text, unit=unit, **options)
                assert (ids.tolist(), alone.tolist()) == (wanted.ids, expected.tolist())


def with_added(rng: random.Random, text: str, added: list[str]) -> str:
    """A text with some added tokens put into it, with white space around or none."""
    for content in rng.choices(added, k=3) if added else []:
        place = rng.randint(0, len(text))
        blanks = [rng.choice(["", "", " ", "  ", "\n ", "\u3000"]) for _ in range(2)]
        text = text[:place] + blanks[0] + content + blanks[1] + text[place:]
    return text


def generated(rng: random.Random, count: int, added: list[str]) -> list[str]:
    """Adversarial texts and random ones, some with added tokens."""
    made = [with_added(rng, texts.random_text(rng, 80), added if rng.random() < 0.6 else []) for _ in range(count)]
    return texts.ADVERSARIAL + made


@pytest.mark.parametrize(
    "row", [row for row in vocabularies.ROWS if row.kind == "tokenizer.json" and not row.refused], ids=lambda r: r.name
)
def test_real_vocabularies(row: vocabularies.Row) -> None:
    """Every file: the small corpus, generated text, and pairs."""
    ours, reference = row.tokenizer(), row.reference()._tokenizer
    rng = random.Random(row.name)
    samples = [
        path.read_text(encoding="utf-8")[:10_000] for path in sorted((TEST_DATA / "corpus-small").rglob("*.txt"))
    ]
    samples += generated(rng, 60, [token.content for token in ours.added_tokens])
    for special in (True, False):
        assert_as_reference(ours, reference, samples, add_special_tokens=special)
    pairs = [(rng.choice(samples)[:200], rng.choice(samples)[:200]) for _ in range(20)]
    batch = ours.encode_batch(*zip(*pairs, strict=True), return_offsets="char")
    assert batch.token_offsets.tolist() == [list(span) for pair in pairs for span in reference.encode(*pair).offsets]


@pytest.mark.parametrize("normalizer", [None, "NFC", "Lowercase"])
@pytest.mark.parametrize("whole_bytes", [True, False])
def test_suffixes(normalizer: str | None, whole_bytes: bool) -> None:
    """Tokens of bytes whose last has a suffix, as CLIP's, between pieces that are dropped; without some bytes too."""
    suffix = "</w>"
    units = [small.spell(bytes([byte])) for byte in range(256)]
    pairs = [(small.spell(left), small.spell(right)) for left, right in small.TRAINED[::2]]
    merges = [(left, right + end) for left, right in pairs for end in ("", suffix)]
    tokens = dict.fromkeys([*units, *(unit + suffix for unit in units), *(left + right for left, right in merges)])
    known = [(left, right) for left, right in merges if left in tokens and right in tokens]
    if not whole_bytes:
        del tokens[small.spell(b"\xff")]
    content = small.tokenizer_json(
        end_of_word_suffix=suffix, vocab={token: number for number, token in enumerate(tokens)}, merges=known
    )
    content["added_tokens"] = []
    content["normalizer"] = None if normalizer is None else {"type": normalizer}
    spaces = {"type": "Split", "pattern": {"Regex": r"\s+"}, "behavior": "Removed", "invert": False}
    content["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [spaces, content["pre_tokenizer"]]}
    reference, ours = tokenizers.Tokenizer.from_str(json.dumps(content)), Tokenizer.from_str(json.dumps(content))
    samples = [*generated(random.Random(5), 100, []), small.TEXT, *(text.upper() for text in texts.ADVERSARIAL)]
    assert_as_reference(ours, reference, samples)


@pytest.mark.parametrize("name", EVERY_NORMALIZER)
def test_normalizers(name: str) -> None:
    """Which character each one of the normal text stands for, by a vocabulary of nothing but the unknown token."""
    theirs, ours = EVERY_NORMALIZER[name]
    reference = tokenizers.Tokenizer(models.BPE(vocab={"<unk>": 0}, merges=[], unk_token="<unk>", fuse_unk=False))
    reference.normalizer = theirs
    tokenizer = Tokenizer.from_str(reference.to_str())
    rng = random.Random(name)
    samples = ["".join(rng.choices(MARKS, k=rng.randint(1, 12))) for _ in range(300)]
    samples += [texts.random_text(rng, 60) for _ in range(200)] + texts.ADVERSARIAL
    for text in samples:
        wanted = [begin for begin, _ in reference.encode(text).offsets]
        assert ours.sources(text).tolist() == wanted, text
    assert_as_reference(tokenizer, reference, samples)


@given(st.text(max_size=40), st.sampled_from(sorted(EVERY_NORMALIZER)))
def test_normalizers_on_any_text(text: str, name: str) -> None:
    """As many sources as characters of the normal text, in order."""
    _, ours = EVERY_NORMALIZER[name]
    sources = ours.sources(text)
    assert len(sources) == len(ours.normalize(text))
    assert (np.diff(sources) >= 0).all()
    assert sources.size == 0 or 0 <= sources[0] <= sources[-1] < len(text)


@pytest.mark.parametrize("seed", range(3))
def test_model_options_by_character(seed: int) -> None:
    """Unknown, fused, dropped and byte tokens, prefix and suffix, whole words: widths that do not add up too."""
    rng = random.Random(seed)
    for options in EVERY_OPTION:
        ids, merges = random_model(rng, options)
        model = models.BPE(
            vocab=ids, merges=merges, **{name: value for name, value in options.items() if value is not None}
        )
        reference = tokenizers.Tokenizer(model)
        reference.pre_tokenizer = rng.choice([None, pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()])
        reference.normalizer = rng.choice([None, normalizers.Prepend("a"), normalizers.Replace("b", "aa")])
        samples = [random_pretoken(rng, ids, 20) + rng.choice(["", " ", " a"]) for _ in range(25)]
        assert_as_reference(Tokenizer.from_str(reference.to_str()), reference, samples)


@pytest.mark.parametrize("seed", range(3))
def test_model_options_by_byte(seed: int) -> None:
    """The same of a byte alphabet that lacks some bytes."""
    rng = random.Random(seed)
    for options in EVERY_OPTION:
        model = small.tokenizer_json(**options)
        gone = set(rng.sample(sorted(small.ALPHABET.values()), rng.choice([0, 1, 100])))
        vocab = {token: id for token, id in model["model"]["vocab"].items() if not gone & set(token)}
        merges = [merge for merge in model["model"]["merges"] if not gone & set("".join(merge))]
        if options["continuing_subword_prefix"]:
            merges = []
        for token in ("<unk>", *(f"<0x{byte:02X}>" for byte in range(256))):
            vocab[token] = len(small.TOKENS) + 10 + len(vocab)
        model["model"] |= {"vocab": vocab, "merges": merges}
        model["added_tokens"] = []
        model["post_processor"]["trim_offsets"] = rng.random() < 0.5
        content = json.dumps(model)
        samples = [texts.random_text(rng, 40) for _ in range(20)]
        assert_as_reference(Tokenizer.from_str(content), tokenizers.Tokenizer.from_str(content), samples)


SPLITS = [
    pre_tokenizers.Split(REGEX("[aeiou]+"), behavior, invert)
    for behavior in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous")
    for invert in (False, True)
]
POST_PROCESSORS = [
    processors.ByteLevel(trim_offsets=True),
    processors.ByteLevel(trim_offsets=True, add_prefix_space=False),
    processors.ByteLevel(trim_offsets=False),
    processors.RobertaProcessing(("b", 1), ("a", 0)),
    processors.RobertaProcessing(("b", 1), ("a", 0), trim_offsets=True, add_prefix_space=False),
    processors.BertProcessing(("b", 1), ("a", 0)),
    processors.TemplateProcessing("a $A $A a", "$B a $A", [("a", 0)]),
    processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=True),
            processors.TemplateProcessing("a $A", "a $A $B", [("a", 0)]),
            processors.ByteLevel(trim_offsets=True, add_prefix_space=False),
        ]
    ),
    processors.Sequence([processors.BertProcessing(("b", 1), ("a", 0)), processors.ByteLevel(trim_offsets=True)]),
]


@pytest.mark.parametrize("post", range(len(POST_PROCESSORS)))
def test_post_processors(post: int) -> None:
    """Trimming and templates, over rules that drop and steps behind ByteLevel, with a space before the text or not."""
    rng = random.Random(post)
    for prefix_space in (False, True):
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
        rules = [byte_level, pre_tokenizers.Sequence([byte_level, pre_tokenizers.Digits(True)])]
        if not prefix_space:
            rules += [pre_tokenizers.Sequence([split, byte_level]) for split in SPLITS]
        for rule in rules:
            reference = tokenizers.Tokenizer.from_str(json.dumps(small.tokenizer_json()))
            reference.add_special_tokens([tokenizers.AddedToken("<mask>", lstrip=True), " \u3000x "])
            reference.pre_tokenizer, reference.post_processor = rule, POST_PROCESSORS[post]
            reference.normalizer = rng.choice([None, normalizers.NFC(), normalizers.Lowercase(), normalizers.Strip()])
            ours = Tokenizer.from_str(reference.to_str())
            samples = generated(rng, 30, ["<mask>", " \u3000x ", "<|endoftext|>", "  a²3 ", "e\u0301"])
            for special in (True, False):
                assert_as_reference(ours, reference, samples, add_special_tokens=special)
            for first, second in zip(samples, samples[::-1], strict=True):
                wanted = reference.encode(first, second)
                ids, found = ours.encode_with_offsets(first, second)
                assert (ids.tolist(), found.tolist()) == (wanted.ids, [list(span) for span in wanted.offsets])


@pytest.mark.parametrize("prefix_space", [False, True], ids=["", "prefix space"])
@pytest.mark.parametrize("name", NORMALIZERS)
def test_added_tokens(name: str, prefix_space: bool) -> None:
    """White space that added tokens take along, in both passes, where the reference does not panic."""
    rng = random.Random(f"{name} {prefix_space}")
    for _ in range(12):
        contents = rng.sample(CONTENTS, rng.randint(1, 6))
        tokens = [(content, *(rng.random() < 0.4 for _ in FLAGS)) for content in contents]
        ours, reference = both(tokens, name, prefix_space)
        reference.post_processor = rng.choice(POST_PROCESSORS[:3])
        trims = Tokenizer.from_str(json.dumps(small.tokenizer_json() | {"added_tokens": []}))._parts.trims
        if reference.post_processor.trim_offsets:
            keeps = reference.post_processor.add_prefix_space
            trims = (numbatok.templates.Trim(keeps),)
        ours = Tokenizer(dataclasses.replace(ours._parts, trims=trims))
        samples = []
        for _ in range(60):
            text = "".join(rng.choices([*contents * 4, *PIECES], k=rng.randint(0, 12)))
            try:
                reference.encode(text)
            except BaseException as error:
                if "bad split" not in str(error):
                    raise
                continue
            samples.append(text)
        assert_as_reference(ours, reference, samples, add_special_tokens=False)


@given(texts.well_formed)
def test_rank_vocabularies(small_ranks, gpt2, text: str) -> None:
    """Spans of whole characters that cover the text."""
    for tokenizer in (small_ranks, gpt2):
        ids, spans = tokenizer.encode_with_offsets(text, allowed_special=())
        assert ids.tolist() == tokenizer.encode(text, allowed_special=()).tolist()
        assert spans.shape == (len(ids), 2)
        position = 0
        for id, span in zip(ids.tolist(), spans.tolist(), strict=True):
            stop = position + len(tokenizer.id_to_token(id))
            first = len(text.encode()[:position].decode("utf-8", "ignore"))
            assert span == [first, len(text.encode()[:stop].decode("utf-8", "replace"))]
            position = stop


@given(texts.well_formed)
def test_small_vocabulary_as_reference(small_merges, tokenizers_small, text: str) -> None:
    """Any text."""
    assert_as_reference(small_merges, tokenizers_small, [text])


@pytest.mark.parametrize("pattern_engine", ["automaton", "regex"])
def test_spelled_steps(pattern_engine: str) -> None:
    """Steps that cut between the bytes of a character: each part has all of it, whoever runs the rule."""
    pattern = r"(²)\1|²" if pattern_engine == "regex" else "²"
    reference = tokenizers.Tokenizer.from_str(json.dumps(small.tokenizer_json()))
    reference.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.ByteLevel(use_regex=False, add_prefix_space=False),
            pre_tokenizers.Split(REGEX(pattern), "isolated"),
        ]
    )
    content = reference.to_str()
    if pattern_engine == "regex":
        with pytest.warns(RuntimeWarning):
            ours = Tokenizer.from_str(content, pattern_engine="regex")
    else:
        ours = Tokenizer.from_str(content)
    assert_as_reference(ours, reference, ["a²b", "²", "²²é²²", "中²²\u0332a", "é", "\U0001f4b2²"])


@pytest.mark.parametrize("unit", ["char", "byte"])
def test_repaired_texts(gpt2, unit: str) -> None:
    """Offsets refer to what was given: surrogates of a ``str``, and bytes that are not UTF-8."""
    broken = "a\ud83d\ude00b\ud83dc\ud83d\ude00\ud83d\ude00 d"
    ids, spans = gpt2.encode_with_offsets(broken, unit=unit)
    whole = "a😀b\ufffdc😀😀 d"
    assert ids.tolist() == gpt2.encode(whole).tolist()
    expected = gpt2.encode_with_offsets(whole, unit=unit)[1]
    places = np.cumsum([0, *(len(c.encode("utf-16-le")) // 2 for c in whole)])
    assert spans.tolist() == (places[expected] if unit == "char" else expected).tolist()
    data = "é".encode() + b"\xff" + b"ab\xe4\xb8" + "中".encode() + b"\xc3"
    batch = gpt2.encode_batch(["x", data], return_offsets=unit, errors="replace")
    found = batch.token_offsets[batch.offsets[1] :]
    replaced = data.decode("utf-8", "replace")
    in_characters = gpt2.encode_with_offsets(replaced)[1]
    given_places = np.array([0, 2, 3, 4, 5, 7, 10, 11])
    assert replaced == "é\ufffdab\ufffd中\ufffd"
    assert found.tolist() == (in_characters if unit == "char" else given_places[in_characters]).tolist()


def test_batches_keep_their_offsets(gpt2) -> None:
    """Slices, pickles, and batches without."""
    batch = gpt2.encode_batch(["Hello world", "", "naïve", "again and again"], return_offsets="char")
    for part in (batch[1:3], batch[::2], batch[::-1], pickle.loads(pickle.dumps(batch[1:]))):
        assert isinstance(part, TokenBatch)
        assert part.token_offsets.shape == (len(part.ids), 2)
    assert batch[2:3].token_offsets.tolist() == gpt2.encode_with_offsets("naïve")[1].tolist()
    assert batch[::-1].token_offsets[-2:].tolist() == [[0, 5], [5, 11]]
    assert gpt2.encode_batch(["a"]).token_offsets is None
    assert gpt2.encode_batch([], return_offsets="byte").token_offsets.shape == (0, 2)
    with pytest.raises(TypeError, match="token_offsets"):
        TokenBatch(batch.ids, batch.offsets, None, batch.token_offsets[1:])


def test_long_texts(gpt2, tokenizers_small, small_merges) -> None:
    """Beyond what a call of its own does, and pieces longer than all buffers."""
    for text in ("naïve ☃ text " * 10_000, "a" * 100_000, "中" * 50_000, "é " * 40_000):
        assert_as_reference(small_merges, tokenizers_small, [text])
        ids, spans = gpt2.encode_with_offsets(text)
        assert ids.tolist() == gpt2.encode(text).tolist()
        assert spans[-1, 1] == len(text)


def test_arguments(gpt2) -> None:
    """Units that are none, and what encode refuses."""
    with pytest.raises(ValueError, match='unit must be "char" or "byte", not \'word\''):
        gpt2.encode_with_offsets("a", unit="word")
    with pytest.raises(ValueError, match='return_offsets must be "char" or "byte", not True'):
        gpt2.encode_batch(["a"], return_offsets=True)
    with pytest.raises(ValueError, match="disallowed special token"):
        gpt2.encode_with_offsets("a<|endoftext|>", allowed_special=(), disallowed_special="all")
    with pytest.raises(TypeError):
        gpt2.encode_with_offsets(1)
    ids, spans = gpt2.encode_with_offsets("<|endoftext|> é", allowed_special=())
    assert len(ids) == len(spans) > 2


def test_sparse_ids() -> None:
    """Ids far apart, which no table holds."""
    base = small.by_merges()._parts
    ids = base.vocabulary.ids.copy()
    ids[-1] = 4_000_000_000
    sparse = Tokenizer(dataclasses.replace(base, vocabulary=dataclasses.replace(base.vocabulary, ids=ids)))
    text = small.TEXT
    wanted = Tokenizer(base).encode_with_offsets(text)[1].tolist()
    assert sparse.encode_with_offsets(text)[1].tolist() == wanted

"""Normalizers give what those of ``tokenizers`` give, under any Python's Unicode, and know when a text is normal."""

import json
import pickle
import random
import unicodedata

import numpy as np
import pytest
import tokenizers
from hypothesis import example, given, settings
from tokenizers import normalizers as reference

import probe_normalization
import texts
from numbatok.errors import VocabularyError
from numbatok.kernels.dtypes import RESTLESS
from numbatok.kernels.normal import first_restless
from numbatok.memory import address_of
from numbatok.normalizers import (
    NFC,
    NFD,
    NFKC,
    NFKD,
    Lowercase,
    Normalizer,
    Prepend,
    Replace,
    Sequence,
    Strip,
    StripAccents,
    from_json,
    frozen,
    restless,
)
from numbatok.normalizers.parts import is_normal, normal_utf8
from support import array_of

FORMS = [NFC(), NFD(), NFKC(), NFKD()]
EVERY = [
    *FORMS,
    Lowercase(),
    StripAccents(),
    Strip(),
    Strip(right=False),
    Strip(left=False),
    Prepend("▁"),
    Replace(" ", "▁"),
    Replace("aa", "\\1$0"),
    Replace(r"\s+", " ", is_regex=True),
    Replace(r" {2,}|\p{Lu}|[^\S\n]x", "é", is_regex=True),
    Sequence((NFD(), StripAccents(), Lowercase())),
    Sequence((Strip(), NFC(), Replace(r"\s+", " ", is_regex=True), Lowercase())),
]
ALL_CHARACTERS = "".join(probe_normalization.CHARACTERS)
NEWER = [chr(code) for code in np.flatnonzero(frozen.characters() & frozen.NEWER)]
ACTIVE = [chr(code) for code in np.flatnonzero(frozen.characters() & ~frozen.NEWER)]
ACTIVE += [c for c in NEWER if unicodedata.category(c) != "Cn"]
POOLS = [
    ACTIVE,
    [c for c in ACTIVE if frozen.characters()[ord(c)] >> frozen.CLASS_SHIFT],
    NEWER[:3000],
    [chr(code) for code in range(0x300, 0x370)],
    [chr(code) for code in range(0x1100, 0x1200)],
    list("eoAE가각ᄀ\u1161\u11a8\u0928\u09c7 "),
]


def peer(normalizer: Normalizer) -> reference.Normalizer:
    """The same normalizer of ``tokenizers``."""
    if isinstance(normalizer, Sequence):
        return reference.Sequence([peer(part) for part in normalizer.normalizers])
    if isinstance(normalizer, Replace):
        pattern = tokenizers.Regex(normalizer.pattern) if normalizer.is_regex else normalizer.pattern
        return reference.Replace(pattern, normalizer.content)
    kind = getattr(reference, type(normalizer).__name__)
    return kind(*vars(normalizer).values())


def check(normalizer: Normalizer, text: str) -> None:
    """The reference's result; ``leaves`` and the kernel never say of a text that changes that it stays."""
    normal = peer(normalizer).normalize_str(text)
    assert normalizer.normalize(text) == normal
    if normal != text:
        assert not normalizer.leaves(text)
        assert scan(normalizer, text.encode()) != -1
    again = normalizer.normalize(normal)
    if not isinstance(normalizer, (Sequence, Replace)):
        assert normalizer.leaves(normal) == (again == normal)
    table = restless(normalizer)
    if table is not None:
        for before, after in (("", ""), ("a" * 300 + "中", "e" * 700), ("é", "\u0301")):
            whole = before + text + after
            source = array_of(whole.encode())
            made = normal_utf8(normalizer, table, address_of(source), len(source))
            wanted = normalizer.normalize(whole)
            assert made == (None if wanted == whole else wanted.encode())
            assert made is None or not is_normal(normalizer, table, address_of(source), len(source))


def scan(normalizer: Normalizer, content: bytes) -> int | None:
    """What the kernel finds in UTF-8; None where the normalizer has no table."""
    table = restless(normalizer)
    if table is None:
        return None
    source = array_of(content)
    return first_restless(address_of(source), len(source), address_of(table), int(table[:128].any()))


def naive_scan(normalizer: Normalizer, text: str) -> int:
    """The same, by a plain loop."""
    table = restless(normalizer)
    assert table is not None
    last = offset = 0
    for character in text:
        kind = table[ord(character)]
        if kind == RESTLESS or 0 < kind < last:
            return offset
        last = kind
        offset += len(character.encode())
    return -1


# ---------------------------------------------------------------- against the reference


@pytest.mark.parametrize("normalizer", [*FORMS, Lowercase(), StripAccents()], ids=repr)
def test_every_character(normalizer: Normalizer) -> None:
    """All characters in a row, and again one by one between letters."""
    same = peer(normalizer).normalize_str
    assert normalizer.normalize(ALL_CHARACTERS) == same(ALL_CHARACTERS)
    text = "a".join(ACTIVE)
    assert normalizer.normalize(text) == same(text)


@pytest.mark.parametrize("normalizer", FORMS, ids=repr)
def test_every_composing_pair(normalizer: Normalizer) -> None:
    """The parts of all that the running Python composes, alone, with a mark between, and with a newer character."""
    parts = {unicodedata.normalize("NFD", character) for character in ACTIVE}
    for between in ("", "\u0334", "\u0323", "\u0345", "\U0001e4ec"):
        text = "\n".join(pair[:-1] + between + pair[-1] for pair in parts)
        assert normalizer.normalize(text) == peer(normalizer).normalize_str(text)


def test_order_of_combining_classes() -> None:
    """One mark of each class before and after one of each other."""
    classes = frozen.characters() >> frozen.CLASS_SHIFT
    marks = [chr(np.flatnonzero(classes == value)[-1]) for value in np.unique(classes)[1:]]
    for first in marks:
        text = " ".join(first + second for second in marks)
        assert NFD().normalize(text) == reference.NFD().normalize_str(text)


@pytest.mark.parametrize("normalizer", EVERY, ids=repr)
def test_random_sequences(normalizer: Normalizer) -> None:
    """Characters that move, join, and decompose, in any order."""
    rng = random.Random(3)
    for _ in range(150):
        check(normalizer, "".join(rng.choice(rng.choice(POOLS)) for _ in range(rng.randint(0, 90))))


@pytest.mark.parametrize("normalizer", EVERY, ids=repr)
def test_generated_text(normalizer: Normalizer) -> None:
    """Text of all scripts, short, and longer than the parts it is cut into."""
    rng = random.Random(4)
    for text in texts.ADVERSARIAL:
        check(normalizer, text)
    for length in [*range(80), 20_000, 40_000]:
        check(normalizer, texts.random_text(rng, length))


@settings(max_examples=50)
@given(texts.well_formed)
@example("\u0344\u0345\u0f73\uff9e" * 40)
@example("ΑΣ ΑΣ")
def test_any_text(text: str) -> None:
    """Whatever Hypothesis finds."""
    for normalizer in EVERY:
        check(normalizer, text)


def test_corpus(corpus_text: str) -> None:
    """The beginning of each file of the small corpus, as it is and decomposed: the reference is slow."""
    begin = corpus_text[:30_000]
    for normalizer in EVERY:
        check(normalizer, begin)
    decomposed = unicodedata.normalize("NFD", begin)
    for normalizer in FORMS:
        check(normalizer, decomposed)


@pytest.mark.parametrize("normalizer", [*FORMS, Lowercase(), StripAccents()], ids=repr)
@pytest.mark.parametrize("marks", ["\u0345\u0334\u0301", "\u0301\u0328\u0f73", "\u0344\uff9e\U0001e4ec\u0301"])
def test_many_marks(normalizer: Normalizer, marks: str) -> None:
    """Marks in the wrong order by the hundred thousand take no quadratic time."""
    text = "é" + marks * 500 + "e" + marks
    check(normalizer, text)
    long_text = "é" + marks * 30_000
    assert not normalizer.leaves(long_text) or normalizer.normalize(long_text) == long_text
    in_two_runs = marks[-1] * 100_000 + marks[0] * 100_000
    once = normalizer.normalize(in_two_runs)
    assert normalizer.normalize(once) == once


def test_lone_surrogates_stay() -> None:
    """They are no characters, so the reference can't be asked."""
    for normalizer in (*FORMS, Lowercase(), StripAccents(), Replace(".", "x")):
        assert normalizer.normalize("\ud800é\udfff") == "\ud800" + normalizer.normalize("é") + "\udfff"


def test_tables_fit_this_unicode() -> None:
    """What this Python's Unicode normalizes and the reference does not is flagged as newer, and nothing else is."""
    kinds = frozen.characters()
    active = np.array(sorted(map(ord, probe_normalization.active_in(unicodedata))))
    assert (kinds[active] != 0).all()
    newer = np.array(list(map(ord, NEWER)))
    assert (kinds[newer] == frozen.NEWER).all()
    text = "\u0301".join(NEWER[:20_000])
    assert reference.NFKD().normalize_str(text) == reference.NFKC().normalize_str(text) == text


@pytest.mark.slow
def test_tables_are_the_references() -> None:
    """The whole tables, asked of the reference again."""
    kept = ~frozen.NEWER
    assert np.array_equal(frozen.characters() & kept, probe_normalization.probe_characters(unicodedata) & kept)
    assert np.array_equal(frozen.to_lower(), probe_normalization.probe_lower())


# ---------------------------------------------------------------- whether a text is normal


@pytest.mark.parametrize("normalizer", [n for n in EVERY if restless(n) is not None], ids=repr)
def test_scan_against_plain_loop(normalizer: Normalizer) -> None:
    """All lengths around blocks, so that the last character ends where the buffer does."""
    rng = random.Random(5)
    for length in [*range(75), 120, 127, 128, 129, 200]:
        for text in (
            texts.random_text(rng, length),
            "a" * length + rng.choice(ACTIVE[:3000]),
            "b" * length,
            "ก\u0e38\u0e48" * length,
        ):
            text = text.replace("\ud800", "")
            assert scan(normalizer, text.encode()) == naive_scan(normalizer, text)


def test_scan_of_broken_bytes() -> None:
    """Text that another thread spoils may be anything: the scan ends."""
    rng = random.Random(6)
    for length in range(100):
        content = bytes(rng.randrange(128, 256) for _ in range(length))
        assert scan(NFC(), content) in range(-1, length)


def test_restless_tables() -> None:
    """Marks in order are normal, in disorder not; where the ends of a text tell, there is no table."""
    assert scan(NFC(), "กุ่ \u0e48\u0e38".encode()) == len("กุ่ \u0e48".encode())
    assert scan(NFC(), "é".encode()) == -1
    assert scan(NFD(), "aé".encode()) == 1
    assert scan(NFC(), "ae\u0301".encode()) == 2
    assert scan(Lowercase(), b"abC") == 2
    assert scan(Sequence((NFC(), Lowercase())), "aé B".encode()) == 4
    assert scan(Sequence(()), "É\u0301".encode()) == -1
    for normalizer in (Strip(), Prepend("x"), Sequence((NFC(), Strip()))):
        assert restless(normalizer) is None
    table = restless(NFC())
    assert table is not None
    assert not table.flags.writeable


# ---------------------------------------------------------------- patterns of Replace


@pytest.mark.parametrize(
    "pattern",
    [
        r"\s+",
        r" {2,}",
        r"a{2}b{,3}",
        r"``|''",
        r"[a-c\s]+",
        r"[^a-c]+|ab?",
        r"\p{L}\P{L}{2,3}",
        r"\d{3}",
        r"\D\S?",
        r".",
        r"[\-\]a]b|\.+",
        r"[a-]",
        r"\r\n|\t|\f",
        r"é",
    ],
)
def test_regular_expressions(pattern: str) -> None:
    """Patterns mean what they mean to the reference."""
    normalizer = Replace(pattern, "<>", is_regex=True)
    rng = random.Random(7)
    for _ in range(100):
        check(normalizer, "".join(rng.choices("aabbcc  \n\r\t`'-].é1٣\u3000\x1c\f", k=rng.randint(0, 30))))
    assert normalizer.normalize(ALL_CHARACTERS) == peer(normalizer).normalize_str(ALL_CHARACTERS)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("", "empty pattern"),
        ("a*", "match nothing"),
        ("a|", "match nothing"),
        ("(a)", r"'\('"),
        ("^a", r"'\^'"),
        ("a$", r"'\$'"),
        ("a+b", "only the last item"),
        ("a+?", "lazy or possessive"),
        ("a{2}{2}", "lazy or possessive"),
        ("a{101}", "more than 100"),
        ("a{3,2}", "wrong order"),
        ("a{0}", "zero times"),
        ("a{,}", "without a number"),
        ("a{", "'{'"),
        (r"\w", r"the escape \\w"),
        (r"\b", r"the escape \\b"),
        ("\\", "ends too early"),
        (r"\p{Greek}", "general category"),
        ("[a", "ends too early"),
        ("[]a]", "in a set"),
        ("[[a]", "in a set"),
        ("[a&&b]", "in a set"),
        (r"[\s-a]", "between classes"),
        ("[c-a]", "wrong order"),
        (r"[^\s\S]", "no members"),
        ("[" * 100_000, "in a set"),
    ],
)
def test_refused_regular_expressions(pattern: str, reason: str) -> None:
    """What is not surely the same, or may take more than linear time, is refused by name."""
    with pytest.raises(VocabularyError, match=reason):
        Replace(pattern, "", is_regex=True)


# ---------------------------------------------------------------- from a tokenizer file


@pytest.mark.parametrize("normalizer", EVERY, ids=repr)
def test_from_json(normalizer: Normalizer) -> None:
    """What the reference writes is read, as an equal normalizer."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.normalizer = peer(normalizer)
    section = json.loads(tokenizer.to_str())["normalizer"]
    assert from_json(section) == normalizer
    assert hash(from_json(section)) == hash(normalizer)
    assert pickle.loads(pickle.dumps(normalizer)) == normalizer


def test_sequences_from_json() -> None:
    """Sequences of nothing are nothing, of one that one; those within others are taken apart, however deep."""
    empty: dict[str, object] = {"type": "Sequence", "normalizers": []}
    assert from_json(None) is None
    assert from_json(empty) is None
    assert from_json({"type": "Sequence", "normalizers": [empty, {"type": "NFC"}]}) == NFC()
    deep: dict[str, object] = {"type": "Strip", "strip_left": True, "strip_right": False}
    for _ in range(100_000):
        deep = {"type": "Sequence", "normalizers": [deep]}
    both = from_json({"type": "Sequence", "normalizers": [deep, {"type": "NFC"}]})
    assert both == Sequence((Strip(right=False), NFC())) == Sequence((Sequence((Strip(right=False),)), NFC()))
    while "normalizers" in deep:  # take it apart: Python would recurse
        (deep,) = deep["normalizers"]  # type: ignore[misc]


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ([], "wanted an object"),
        ("NFC", "wanted an object"),
        ({}, "type None is not supported"),
        ({"type": ["NFC"]}, "not supported"),
        ({"type": "Precompiled", "precompiled_charsmap": "x"}, "'Precompiled' is not supported, only NFC"),
        ({"type": "BertNormalizer", "lowercase": True}, "'BertNormalizer' is not supported"),
        ({"type": "Nmt"}, "'Nmt' is not supported"),
        ({"type": "ByteLevel"}, "'ByteLevel' is not supported"),
        ({"type": "NFC", "form": 1}, "NFC has keys that are not known: form"),
        ({"type": "Strip"}, "Strip lacks strip_left, strip_right"),
        ({"type": "Strip", "strip_left": 1, "strip_right": True}, "strip_left is 1, wanted true or false"),
        ({"type": "Prepend", "prepend": None}, "prepend is None, wanted a string"),
        ({"type": "Replace", "pattern": "a", "content": "b"}, "pattern is 'a', wanted"),
        ({"type": "Replace", "pattern": {"Glob": "a"}, "content": "b"}, "wanted"),
        ({"type": "Replace", "pattern": {"String": 1}, "content": "b"}, "String is 1, wanted a string"),
        ({"type": "Replace", "pattern": {"Regex": "("}, "content": "b"}, "not supported"),
        ({"type": "Replace", "pattern": {"String": ""}, "content": "b"}, "empty pattern"),
        ({"type": "Replace", "pattern": {"String": "a"}}, "lacks content"),
        ({"type": "Sequence", "normalizers": {}}, "wanted a list"),
        ({"type": "Sequence", "normalizers": [None]}, "wanted an object"),
        ({"type": "Sequence"}, "lacks normalizers"),
    ],
)
def test_refused_json(section: object, message: str) -> None:
    """Each error names what was given and what is wanted."""
    with pytest.raises(VocabularyError, match=message):
        from_json(section)

"""The frozen Unicode classes are the references': asked of them again, character by character."""

from collections.abc import Callable

import numpy as np
import pytest
from tokenizers import pre_tokenizers

import probe_unicode
from numbatok.kernels import dtypes, starts
from numbatok.patterns import charsets, classes, known, unicode

#: Characters of the planes that hold all scripts.
ASSIGNED_PLANES = probe_unicode.EVERY_CHARACTER[:0x33000]
REFERENCES = [probe_unicode.matched_by_tiktoken, probe_unicode.matched_by_tokenizers]


@pytest.mark.parametrize("matched", REFERENCES)
@pytest.mark.parametrize("prefix", ["L", "N"])
def test_groups_of_categories(matched: Callable[[str], np.ndarray], prefix: str) -> None:
    r"""``\p{L}`` and ``\p{N}`` match the same code points as in the references."""
    assert np.array_equal(np.flatnonzero(unicode.in_categories(prefix)), matched(rf"\p{{{prefix}}}"))


@pytest.mark.parametrize("matched", REFERENCES)
def test_white_space(matched: Callable[[str], np.ndarray]) -> None:
    r"""So does ``\s``."""
    assert np.array_equal(np.flatnonzero(unicode.white_space()), matched(r"\s"))


@pytest.mark.slow
@pytest.mark.parametrize("matched", REFERENCES)
def test_whole_table(matched: Callable[[str], np.ndarray]) -> None:
    """Every category of every code point."""
    assert np.array_equal(unicode.categories(), probe_unicode.probe(matched))


@pytest.mark.parametrize("script", ["Han", "Hangul", "Thai", "Arabic"])
def test_scripts(script: str) -> None:
    """So do scripts, in both references."""
    points = members(unicode.named_sets()[script.lower()])
    for matched in REFERENCES:
        assert np.array_equal(points, matched(rf"\p{{{script}}}", ASSIGNED_PLANES))


def test_word_characters() -> None:
    r"""``\w`` is not the same in the two, nor inside and outside of brackets in the second."""
    for name, matched, pattern in (
        ("word", probe_unicode.matched_by_tiktoken, r"\w"),
        ("word oniguruma", probe_unicode.matched_by_tokenizers, r"\w"),
        ("word in class oniguruma", probe_unicode.matched_by_tokenizers, r"[\w]"),
    ):
        assert np.array_equal(
            without_last_planes(unicode.named_sets()[name]), np.sort(matched(pattern, ASSIGNED_PLANES))
        ), name


def test_what_pre_tokenizers_take_for_numbers_and_punctuation() -> None:
    """Those are other sets than the general categories, and have names of their own."""
    for name, size in (("isnumeric", 1_924), ("ispunctuation", 726)):
        points = members(unicode.named_sets()[name])
        assert len(points) == size
        assert np.array_equal(points, members(classes.property_set(name.replace("is", "is_"), "rust")))
    text = "".join(f"a{chr(point)}" for point in range(0x3000) if not 0xD800 <= point < 0xE000)
    for pre_tokenizer, name in (
        (pre_tokenizers.Digits(individual_digits=True), "isnumeric"),
        (pre_tokenizers.Punctuation(), "ispunctuation"),
    ):
        found = {ord(piece) for piece, _ in pre_tokenizer.pre_tokenize_str(text) if len(piece) == 1 and piece != "a"}
        points = members(unicode.named_sets()[name])
        assert found == set(points[points < 0x3000].tolist())


def test_case() -> None:
    """Characters without regard to case, as the references have them."""
    assert unicode.case_variants()[ord("k")] == (ord("K"), 0x212A)
    assert unicode.case_variants()[ord("s")] == (ord("S"), 0x17F)
    variants = unicode.case_variants()
    assert all(point in variants[other] for point, others in variants.items() for other in others)


@pytest.mark.slow
def test_whole_sets() -> None:
    """Every named set and every pair of case variants."""
    packed = probe_unicode.packed_sets(probe_unicode.probe_sets(), probe_unicode.probe_case())
    assert packed == unicode.SETS.read_bytes()


def members(chars: np.ndarray) -> np.ndarray:
    """The code points of a set."""
    return np.flatnonzero(charsets.contains(chars, np.arange(unicode.CODE_POINTS)))


def without_last_planes(chars: np.ndarray) -> np.ndarray:
    """The code points of a set that are in ASSIGNED_PLANES."""
    points = members(chars)
    return points[points <= ord(ASSIGNED_PLANES[-1])]


def test_sizes() -> None:
    """As many code points of each group as were counted in the references when the table was frozen."""
    sizes = {prefix: int(unicode.in_categories(prefix).sum()) for prefix in ("L", "N", "M", "Lu", "Ll", "Lt", "Lm")}
    assert sizes == {"L": 141_028, "N": 1_911, "M": 2_501, "Lu": 1_858, "Ll": 2_258, "Lt": 31, "Lm": 404}
    assert int(unicode.white_space().sum()) == 25


def test_no_code_point_has_two_classes() -> None:
    """Letters, numbers and white space share no code point, and the table can't be written to."""
    groups = [unicode.in_categories("L"), unicode.in_categories("N"), unicode.white_space()]
    assert np.sum(groups, axis=0).max() == 1
    with pytest.raises(ValueError, match="read-only"):
        unicode.categories()[0] = 1


def test_class_table_of_the_walker() -> None:
    """One class a code point, OTHER for every value past the last one."""
    whole = known.character_classes("r50k")
    assert len(whole) == dtypes.CLASS_TABLE_SIZE + dtypes.ALIKE_BYTES
    table = whole[: dtypes.CLASS_TABLE_SIZE]
    assert np.array_equal(np.flatnonzero(table == dtypes.LETTER), np.flatnonzero(unicode.in_categories("L")))
    assert np.array_equal(np.flatnonzero(table == dtypes.NUMBER), np.flatnonzero(unicode.in_categories("N")))
    assert np.array_equal(np.flatnonzero(table == dtypes.SPACE), np.flatnonzero(unicode.white_space()))
    assert (table[unicode.CODE_POINTS :] == dtypes.OTHER).all()
    with pytest.raises(KeyError):
        known.character_classes("nowhere")


@pytest.mark.parametrize("name", known.WALKS)
def test_runs_of_characters_that_begin_alike(name: str) -> None:
    """Each run is one class in the table, and all characters of most alphabets are in one of their runs."""
    table = known.character_classes(name)
    words = table[dtypes.CLASS_TABLE_SIZE :].view(np.uint64).tolist()
    covered = np.zeros(1 << 16, np.bool_)
    for number, word in enumerate(words):
        begin = 64 * (number if number < dtypes.ALIKE_PAIRS else number - dtypes.ALIKE_PAIRS)
        for shift in range(0, dtypes.ALIKE_RUNS * dtypes.ALIKE_BITS, dtypes.ALIKE_BITS):
            first, count, kind = word >> shift & 63, word >> shift + 6 & 127, word >> shift + 13 & 127
            assert first + count <= 64
            assert (table[begin + first : begin + first + count] == kind).all()
            covered[begin + first : begin + first + count] = True
    for first, last in ((0x620, 0x64A), (0x905, 0x939), (0xE01, 0xE30), (0x3042, 0x3096), (0x30A1, 0x30FA)):
        assert covered[first : last + 1].all()


def test_letter_leads() -> None:
    """Every character whose UTF-8 begins with one of the walker's letter leads is a letter, as its blocks assume."""
    letters = unicode.in_categories("L")
    for lead in starts.LETTER_LEADS:
        first, count = ((lead & 0x1F) << 6, 1 << 6) if lead < 0xE0 else ((lead & 0x0F) << 12, 1 << 12)
        assert letters[first : first + count].all(), hex(lead)
    assert letters[(starts.HAN_LEAD & 0x0F) << 12 | (starts.LATE_HAN & 0x3F) << 6 : 0x5000].all()


def test_leads_of_the_walkers_by_case() -> None:
    """The same where a walker tells capitals, small letters, Han and DeepSeek's script by the first bytes."""
    o200k, kimi, deepseek = (known.character_classes(name) for name in ("o200k", "kimi_k2", "deepseek_v3"))
    letter, upper, lower, script = dtypes.LETTER, dtypes.UPPER, dtypes.LOWER, dtypes.SCRIPT
    for table in (o200k, kimi):
        assert (table[0x400:0x430] == letter | upper).all()
        assert (table[0x430:0x460] == letter | lower).all()
        assert (table[0xB000:0xD000] == letter).all()
    assert (o200k[0x4E00:0xA000] == letter).all()
    assert (kimi[0x4E00:0xA000] == letter | script).all()
    assert (deepseek[0x4E00:0x9000] == letter | script).all()
    assert (deepseek[0x9000:0xA000] & letter == letter).all()
    assert (deepseek[0x400:0x480] == letter).all()
    assert (deepseek[0xB000:0xD000] == letter).all()

"""The frozen Unicode classes are the references': asked of them again, character by character."""

from collections.abc import Callable

import numpy as np
import pytest

import probe_unicode
from numbatok.kernels import dtypes, starts
from numbatok.patterns import known, unicode

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
    table = known.character_classes("r50k")
    assert len(table) == dtypes.CLASS_TABLE_SIZE
    assert np.array_equal(np.flatnonzero(table == dtypes.LETTER), np.flatnonzero(unicode.in_categories("L")))
    assert np.array_equal(np.flatnonzero(table == dtypes.NUMBER), np.flatnonzero(unicode.in_categories("N")))
    assert np.array_equal(np.flatnonzero(table == dtypes.SPACE), np.flatnonzero(unicode.white_space()))
    assert (table[unicode.CODE_POINTS :] == dtypes.OTHER).all()
    with pytest.raises(KeyError):
        known.character_classes("nowhere")


def test_letter_leads() -> None:
    """Every character whose UTF-8 begins with one of the walker's letter leads is a letter, as its blocks assume."""
    letters = unicode.in_categories("L")
    for lead in starts.LETTER_LEADS:
        first, count = ((lead & 0x1F) << 6, 1 << 6) if lead < 0xE0 else ((lead & 0x0F) << 12, 1 << 12)
        assert letters[first : first + count].all(), hex(lead)

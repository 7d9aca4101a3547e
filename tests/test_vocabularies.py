"""Every vocabulary of the test data over every file of the small corpus: ids as the reference's.

``python tests/vocabularies.py`` prints the table of what they are; the test data's folders must all stand in it.
"""

import pytest

import vocabularies
from conftest import TEST_DATA
from numbatok import VocabularyError

BEGINNING = 6_000  # characters of each file; the slow test takes all
LOADED = [row for row in vocabularies.ROWS if not row.refused]
REFUSED = [row for row in vocabularies.ROWS if row.refused]


def files() -> list[str]:
    """The texts of the small corpus."""
    return [path.read_text(encoding="utf-8") for path in sorted((TEST_DATA / "corpus-small").rglob("*.txt"))]


def compare(row: vocabularies.Row, length: int | None) -> None:
    """The ids of both over the beginning of each file, with the template and without, and back to text."""
    ours, reference = row.tokenizer(), row.reference()
    options = {"allowed_special": ()} if row.kind != "tokenizer.json" else {}
    for text in files():
        for special, part in ((True, text[:length]), (False, text[:2000])):
            ids = ours.encode(part, add_special_tokens=special, **options)
            assert ids.tolist() == reference.encode(part, add_special_tokens=special)
            if row.kind != "tokenizer.json":
                assert ours.decode(ids) == part


@pytest.mark.parametrize("row", LOADED, ids=lambda row: row.name)
def test_ids(row: vocabularies.Row) -> None:
    """The beginning of each file."""
    compare(row, BEGINNING)


@pytest.mark.slow
@pytest.mark.parametrize("row", LOADED, ids=lambda row: row.name)
def test_ids_of_whole_files(row: vocabularies.Row) -> None:
    """All of each file."""
    compare(row, None)


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row.name)
def test_refused(row: vocabularies.Row) -> None:
    """By the name of what is missing."""
    with pytest.raises(VocabularyError, match=row.refused):
        row.parts()


def test_no_row_is_missing() -> None:
    """Each folder of the test data stands in the table."""
    named = {row.folder for row in vocabularies.ROWS} | set(vocabularies.DIRECTORIES)
    assert set(vocabularies.folders()) <= named

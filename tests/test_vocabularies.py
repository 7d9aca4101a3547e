"""The table of vocabularies: no folder of the test data without a row, each loads or is refused as it says."""

import pytest

import vocabularies
from numbatok import VocabularyError
from vocabularies import ROWS, Row


def test_no_row_is_missing() -> None:
    """Every folder of the test data is in the table."""
    found = vocabularies.folders()
    if not found:
        pytest.skip("no test data")
    assert set(found) == {row.folder for row in ROWS} | set(vocabularies.DIRECTORIES)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_loads_or_is_refused(row: Row) -> None:
    """A vocabulary loads with all its tokens, or the refusal names what is not supported."""
    if row.refused:
        with pytest.raises(VocabularyError, match=row.refused):
            row.parts()
        return
    parts = row.parts()
    assert len(parts.vocabulary) + len(parts.added_tokens) + len(parts.unreachable) > 1000

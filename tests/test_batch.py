"""TokenBatch: a sequence of documents over two flat arrays."""

import pickle
import weakref

import numpy as np
import pytest

from numbatok import TokenBatch

DOCUMENTS = [[1, 2, 3], [], [4], [], [5, 6], [7]]


def batch_of(documents: list[list[int]]) -> TokenBatch:
    """A batch of these documents."""
    ids = np.array([id for document in documents for id in document], np.uint32)
    return TokenBatch(ids, np.cumsum([0, *map(len, documents)]))


@pytest.fixture
def batch() -> TokenBatch:
    """A batch with empty documents within."""
    return batch_of(DOCUMENTS)


def test_as_a_sequence(batch: TokenBatch) -> None:
    """Length, items from both ends, iteration, lists."""
    assert len(batch) == len(DOCUMENTS)
    assert [ids.tolist() for ids in batch] == DOCUMENTS
    assert [batch[i].tolist() for i in range(len(batch))] == DOCUMENTS
    assert [batch[-i].tolist() for i in range(1, len(batch) + 1)] == DOCUMENTS[::-1]
    assert batch[np.int64(4)].tolist() == [5, 6]
    assert batch.tolist() == DOCUMENTS
    assert batch.lengths.tolist() == [3, 0, 1, 0, 2, 1]
    assert batch.lengths.dtype == np.int64


def test_items_are_views(batch: TokenBatch) -> None:
    """No ids are copied for an item, an iteration, or a slice of step 1."""
    assert np.shares_memory(batch[0], batch.ids)
    assert all(np.shares_memory(ids, batch.ids) for ids in batch if len(ids))
    assert np.shares_memory(batch[1:].ids, batch.ids)


@pytest.mark.parametrize("index", [6, -7, 100])
def test_index_out_of_range(batch: TokenBatch, index: int) -> None:
    """IndexError that says how many there are."""
    with pytest.raises(IndexError, match=f"^document {index} is not in this batch of 6 documents$"):
        batch[index]


def test_wrong_index(batch: TokenBatch) -> None:
    """TypeError for what is no integer."""
    for wrong in ("a", 1.0, None, (1, 2)):
        with pytest.raises(TypeError, match="index must be an integer or a slice, not"):
            batch[wrong]
    with pytest.raises(TypeError, match="tolist"):
        [4] in batch  # noqa: B015


def test_attributes_cannot_be_replaced(batch: TokenBatch) -> None:
    """They were checked together."""
    for name in ("ids", "offsets", "type_ids"):
        with pytest.raises(AttributeError):
            setattr(batch, name, np.zeros(7, np.int64))


def test_weak_references(batch: TokenBatch) -> None:
    """A cache may hold batches weakly."""
    assert weakref.ref(batch)() is batch


@pytest.mark.parametrize("start", [None, 0, 2, 5, 6, 9, -2, -9])
@pytest.mark.parametrize("stop", [None, 0, 3, 6, 9, -1, -9])
@pytest.mark.parametrize("step", [None, 1, 2, 3, -1, -2])
def test_slices(batch: TokenBatch, start: int | None, stop: int | None, step: int | None) -> None:
    """A slice holds the documents that the same slice of a list holds; so does a slice of a slice."""
    chosen = slice(start, stop, step)
    part = batch[chosen]
    assert part.tolist() == DOCUMENTS[chosen]
    assert part.offsets[0] == 0
    assert part.offsets[-1] == len(part.ids)
    assert part[1:].tolist() == DOCUMENTS[chosen][1:]
    assert part == batch_of(DOCUMENTS[chosen])


def test_equality(batch: TokenBatch) -> None:
    """By documents, not by where they lie; and no hash, since arrays can change."""
    padded = TokenBatch(np.array([9, *batch.ids, 9], np.uint32), batch.offsets + 1)
    assert padded == batch
    assert padded.lengths.tolist() == batch.lengths.tolist()
    assert padded[0].tolist() == DOCUMENTS[0]
    assert padded.tolist() == DOCUMENTS
    assert batch != batch_of([*DOCUMENTS[:-1], [8]])
    assert batch != batch_of([[1, 2], [3], *DOCUMENTS[2:]])
    assert batch != DOCUMENTS
    with pytest.raises(TypeError, match="unhashable"):
        hash(batch)


def test_pickle_takes_its_own_ids_only(batch: TokenBatch) -> None:
    """A slice's pickle holds the slice."""
    assert pickle.loads(pickle.dumps(batch)) == batch
    loaded = pickle.loads(pickle.dumps(batch[4:]))
    assert loaded == batch[4:]
    assert loaded.ids.tolist() == [5, 6, 7]


def test_repr(batch: TokenBatch) -> None:
    """How many, of what."""
    assert repr(batch) == "TokenBatch(6 documents, 7 ids)"
    assert repr(batch[4:]) == "TokenBatch(2 documents, 3 ids)"
    assert repr(batch_of([[7]])) == "TokenBatch(1 document, 1 id)"


def test_empty() -> None:
    """No documents, and documents without ids."""
    nothing = batch_of([])
    assert len(nothing) == 0
    assert nothing.tolist() == []
    assert nothing[:].tolist() == []
    assert nothing[::-1].tolist() == []
    assert nothing.lengths.tolist() == []
    assert batch_of([[], []]).tolist() == [[], []]


@pytest.mark.parametrize(
    ("ids", "offsets", "error", "message"),
    [
        (
            np.zeros(3, np.int32),
            np.array([0, 3]),
            TypeError,
            "array of uint32 or uint16, not 1-dimensional int32",
        ),
        (np.zeros((1, 3), np.uint32), np.array([0, 3]), TypeError, "not 2-dimensional uint32"),
        (np.zeros(3, np.uint32), np.array([], np.int64), TypeError, "one more element than documents"),
        (np.zeros(3, np.uint32), np.array([0, 3], np.int32), TypeError, "int64 array"),
        (np.zeros(3, np.uint32), np.array([[0, 3]]), TypeError, "int64 array"),
        (np.zeros(3, np.uint32), np.array([-1, 3]), ValueError, "offsets must rise"),
        (np.zeros(3, np.uint32), np.array([0, 4]), ValueError, "at most 3, the number of ids"),
        (np.zeros(3, np.uint32), np.array([0, 2, 1]), ValueError, "offsets must rise"),
    ],
)
def test_what_is_no_batch(ids: np.ndarray, offsets: np.ndarray, error: type[Exception], message: str) -> None:
    """Arrays that do not fit together are refused where the batch is made."""
    with pytest.raises(error, match=message):
        TokenBatch(ids, offsets)

"""Batches for models: rows of one length, packing, other libraries' arrays, and batches made of batches."""

import sys
import types
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numbatok import TokenBatch, Tokenizer

ids_of_one = st.lists(st.integers(0, (1 << 32) - 1), max_size=40)
many = st.lists(ids_of_one, max_size=12)
PAD = 77


def batch_of(documents: list[list[int]], *, typed: bool = False, before: int = 0) -> TokenBatch:
    """A batch of these documents, whose ids begin ``before`` places into its array; type ids count all ids."""
    flat = [id for document in documents for id in document]
    ids = np.array([9] * before + flat + [9] * before, np.uint32)
    kinds = np.arange(len(ids), dtype=np.uint32) if typed else None
    return TokenBatch(ids, np.cumsum([before, *map(len, documents)]), kinds)


def kinds_of(batch: TokenBatch) -> list[list[int]]:
    """The type ids of each document."""
    return batch.types.tolist()


@given(many, st.sampled_from(["left", "right"]), st.integers(1, 9), st.integers(0, 2))
def test_padded(documents: list[list[int]], side: str, multiple: int, before: int) -> None:
    """Each row is the document and the filling, and the mask says which."""
    batch = batch_of(documents, before=before)
    ids, mask = batch.to_padded(PAD, multiple_of=multiple, side=side)
    width = -(-max(map(len, documents), default=0) // multiple) * multiple
    assert (ids.shape, ids.dtype, mask.shape, mask.dtype) == ((len(documents), width), np.uint32, ids.shape, np.bool_)
    for row, taken, document in zip(ids.tolist(), mask.tolist(), documents, strict=True):
        filling = [PAD] * (width - len(document))
        assert row == (document + filling if side == "right" else filling + document)
        assert taken == [value is True for value in taken]
        assert [id for id, own in zip(row, taken, strict=True) if own] == document


@given(many, st.integers(0, 50), st.sampled_from([True, "left", "right"]), st.sampled_from(["left", "right"]))
def test_truncated(documents: list[list[int]], length: int, cut: bool | str, side: str) -> None:
    """Longer documents lose their end, or their beginning."""
    ids, mask = batch_of(documents).to_padded(PAD, length, side=side, truncate=cut)
    kept = [row[mask_row].tolist() for row, mask_row in zip(ids, mask, strict=True)]
    assert kept == [
        document[max(len(document) - length, 0) :] if cut == "left" else document[:length] for document in documents
    ]
    assert ids.shape == (len(documents), length)


def test_padding_of_wide_rows() -> None:
    """Rows of thousands, which vector loops copy."""
    rng = np.random.default_rng(1)
    documents = [rng.integers(0, 50_000, size).tolist() for size in (0, 1, 63, 64, 65, 5_000, 4_999)]
    for side in ("left", "right"):
        ids, mask = batch_of(documents).to_padded(PAD, side=side)
        assert [row[own].tolist() for row, own in zip(ids, mask, strict=True)] == documents
        assert (ids[~mask] == PAD).all()


def test_padding_errors() -> None:
    """What is wrong, with which document, and what to do."""
    batch = batch_of([[1, 2, 3], [4], []])
    with pytest.raises(
        ValueError, match=r"document at index 1 has 1 ids, fewer than the length 3.*pass pad_id, such as"
    ):
        batch.to_padded()
    with pytest.raises(ValueError, match="document at index 0 has 3 ids, more than the length 2; pass truncate=True"):
        batch.to_padded(0, 2)
    with pytest.raises(ValueError, match="side must be 'left' or 'right', not 'top'"):
        batch.to_padded(0, side="top")
    with pytest.raises(ValueError, match="truncate must be 'left' or 'right'"):
        batch.to_padded(0, truncate="top")
    with pytest.raises(ValueError, match="pad_id must be from 0 to 4294967295, not -1"):
        batch.to_padded(-1)
    with pytest.raises(TypeError, match="pad_id must be an integer, not str"):
        batch.to_padded("<pad>")
    with pytest.raises(TypeError, match="length must be an integer, not float"):
        batch.to_padded(0, 2.0)
    with pytest.raises(ValueError, match="multiple_of must be at least 1, not 0"):
        batch.to_padded(0, multiple_of=0)
    assert batch_of([[1, 2], [3, 4]]).to_padded()[0].tolist() == [[1, 2], [3, 4]]
    assert batch_of([]).to_padded()[0].shape == (0, 0)


def test_edited_offsets_are_looked_at_again() -> None:
    """The arrays of a batch can be edited; a kernel must not follow them outside."""
    batch = batch_of([[1, 2, 3], [4]])
    batch.offsets[-1] = 1 << 40
    calls: list[Callable[[], object]] = [lambda: batch.to_padded(0), lambda: batch.pack(2, 0), lambda: batch.take([1])]
    for call in calls:
        with pytest.raises(ValueError, match="offsets must rise"):
            call()


@given(many, st.integers(1, 20), st.none() | st.integers(0, 100), st.integers(0, 2))
def test_packed(documents: list[list[int]], length: int, separator: int | None, before: int) -> None:
    """All ids in order, nothing lost."""
    rows, left_over = batch_of(documents, before=before).pack(length, separator)
    after = [] if separator is None else [separator]
    wanted = [id for document in documents for id in [*document, *after]]
    assert [*rows.ravel().tolist(), *left_over.tolist()] == wanted
    assert rows.shape == (len(wanted) // length, length)
    assert rows.dtype == left_over.dtype == np.uint32
    assert len(left_over) < length


def test_packing_without_a_separator_copies_nothing() -> None:
    """Rows are views."""
    batch = batch_of([[1, 2, 3], [4, 5]])
    packed = batch.pack(2)
    assert np.shares_memory(packed.rows, batch.ids)
    assert packed.left_over.tolist() == [5]
    with pytest.raises(ValueError, match="length must be at least 1, not 0"):
        batch.pack(0)
    with pytest.raises(ValueError, match="separator must be from 0"):
        batch.pack(2, -1)


@given(many, st.data())
def test_taken(documents: list[list[int]], data: st.DataObject) -> None:
    """Documents by number, with their type ids."""
    batch = batch_of(documents, typed=True, before=1)
    count = len(documents)
    numbers = data.draw(st.lists(st.integers(-count, count - 1), max_size=20) if count else st.just([]))
    taken = batch.take(numbers)
    assert taken.tolist() == [documents[number] for number in numbers]
    assert kinds_of(taken) == [kinds_of(batch)[number] for number in numbers]
    assert batch.take(np.array(numbers, np.int16)) == taken
    assert batch[::-2].tolist() == documents[::-2]
    assert kinds_of(batch[::-2]) == kinds_of(batch)[::-2]


def test_taking_errors() -> None:
    """Numbers of documents that are there."""
    batch = batch_of([[1], [2]])
    for wrong in (2, -3, 1 << 63):
        with pytest.raises(
            IndexError, match=f"document {wrong if wrong < 9 else (1 << 63) - 1} is not in this batch of 2"
        ):
            batch.take(np.array([0, wrong], np.uint64 if wrong > 9 else np.int64))
    with pytest.raises(TypeError, match=r"integers, not 1-dimensional bool; np\.flatnonzero"):
        batch.take([True, False])
    with pytest.raises(TypeError, match="0-dimensional"):
        batch.take(1)
    with pytest.raises(TypeError, match="float64"):
        batch.take([0.5])


@given(st.lists(st.tuples(many, st.booleans(), st.integers(0, 2)), max_size=5))
def test_concatenated(given_batches: list[tuple[list[list[int]], bool, int]]) -> None:
    """Documents of all, in order; type ids where any batch has some."""
    batches = [batch_of(documents, typed=typed, before=before) for documents, typed, before in given_batches]
    whole = TokenBatch.concatenate(iter(batches))
    assert whole.tolist() == [document for documents, _, _ in given_batches for document in documents]
    assert kinds_of(whole) == [kinds for batch in batches for kinds in kinds_of(batch)]


def test_concatenating_errors() -> None:
    """What is no batch."""
    batch = batch_of([[1]])
    with pytest.raises(TypeError, match="iterable of TokenBatch, not one TokenBatch"):
        TokenBatch.concatenate(batch)
    with pytest.raises(TypeError, match="not ndarray at index 1"):
        TokenBatch.concatenate([batch, batch.ids])


@given(many, st.integers(0, 20), st.none() | st.integers(0, 40))
def test_filtered(documents: list[list[int]], least: int, most: int | None) -> None:
    """Those of the lengths."""
    batch = batch_of(documents, typed=True)
    wanted = [
        i for i, document in enumerate(documents) if least <= len(document) <= (1 << 40 if most is None else most)
    ]
    kept = batch.filter_by_length(least, most)
    assert kept.tolist() == [documents[i] for i in wanted]
    assert kinds_of(kept) == [kinds_of(batch)[i] for i in wanted]


def test_types() -> None:
    """Type ids go through the same doors as ids."""
    batch = batch_of([[5, 6, 7], [8]], typed=True)
    assert batch.types.to_padded(0)[0].tolist() == [[0, 1, 2], [3, 0, 0]]
    assert batch.types.pack(2, 9).rows.tolist() == [[0, 1], [2, 9], [3, 9]]
    assert batch_of([[5], [6]]).types.tolist() == [[0], [0]]


@given(many, st.integers(0, 2))
def test_arrow(documents: list[list[int]], before: int) -> None:
    """Lists of uint32 over the same memory."""
    pyarrow = pytest.importorskip("pyarrow")
    batch = batch_of(documents, before=before)
    array = batch.to_arrow()
    array.validate(full=True)
    assert array.type == pyarrow.list_(pyarrow.uint32())
    assert array.to_pylist() == documents
    assert array.values.buffers()[1].address == batch.ids.ctypes.data or len(batch.ids) == 0


def test_arrow_of_many_ids() -> None:
    """Offsets that int32 can't hold, over memory that is never touched."""
    pyarrow = pytest.importorskip("pyarrow")
    count = (1 << 31) + 8
    batch = TokenBatch(np.zeros(count, np.uint32), np.array([0, 3, count]))
    array = batch.to_arrow()
    assert array.type == pyarrow.large_list(pyarrow.uint32())
    assert array.value_lengths().to_pylist() == [3, count - 3]


@given(many, st.integers(0, 2))
def test_awkward(documents: list[list[int]], before: int) -> None:
    """Lists of uint32 over the same memory."""
    awkward = pytest.importorskip("awkward")
    batch = batch_of(documents, before=before)
    array = batch.to_awkward()
    assert awkward.to_list(array) == documents
    assert np.shares_memory(array.layout.content.data, batch.ids) or len(batch.ids) == 0


def test_torch() -> None:
    """Tensors over the same memory; where there is no torch, what it would be given."""
    try:
        import torch
    except ImportError:
        torch = None
    module = torch or types.SimpleNamespace(from_numpy=lambda array: array)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "torch", module)
        batch = batch_of([[1, 2, 3], [], [4]])
        ids, offsets = batch.to_torch()
        assert ids.tolist() == [1, 2, 3, 4]
        assert offsets.tolist() == [0, 3, 3, 4]
        batch.ids[0] = 9
        assert ids[0] == 9
        assert str(ids.dtype).endswith("int32")
        assert batch_of([[1 << 31]]).to_torch()[0].tolist() == [1 << 31]
        batch.ids.flags.writeable = False
        assert batch.to_torch()[0].tolist() == [9, 2, 3, 4]


@pytest.mark.parametrize(
    ("method", "name"), [("to_arrow", "pyarrow"), ("to_awkward", "awkward"), ("to_torch", "torch")]
)
def test_library_that_is_not_there(monkeypatch: pytest.MonkeyPatch, method: str, name: str) -> None:
    """The error says what to install."""
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=rf"TokenBatch\.{method} needs {name}: pip install numbatok\["):
        getattr(batch_of([[1]]), method)()


def test_offsets_of_tokens_come_along(gpt2: Tokenizer) -> None:
    """Taking, slicing and concatenating keep them beside their ids."""
    texts = ["Hello world", "", "naïve ☃ text", "the end"]
    batch = gpt2.encode_batch(texts, return_offsets="char")
    places = batch.token_offsets
    assert places is not None
    taken = batch.take([2, 0, 2])
    for which, index in enumerate([2, 0, 2]):
        first, last = batch.offsets[index], batch.offsets[index + 1]
        assert np.array_equal(taken.token_offsets[taken.offsets[which] : taken.offsets[which + 1]], places[first:last])
    whole = TokenBatch.concatenate([batch[:2], batch[2:]])
    assert np.array_equal(whole.token_offsets, places)
    assert TokenBatch.concatenate([batch, gpt2.encode_batch(["a"])]).token_offsets is None

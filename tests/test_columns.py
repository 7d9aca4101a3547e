"""Columns of texts that go into batches by their buffers: Arrow's layouts, polars, pandas, NumPy's StringDType."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import numbatok
from numbatok.columns import Column, column_of

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

TEXTS = [
    "Hello world",
    "",
    None,
    "naïve ☃ 日本",
    "twelve bytes",
    "thirteen bytes",
    "a<|endoftext|>b",
    "x" * 5000,
    None,
    "again",
]
BATCH = [text for text in TEXTS if text is not None]
texts = st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=40), max_size=20)


def layouts(strings):
    """Arrow arrays of the same strings, in every layout."""
    longer = ["before", None, *strings, "after"]
    plain, padded = pa.array(strings, pa.string()), pa.array(longer, pa.string())
    kinds = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.string_view(), pa.binary_view()]
    for kind in kinds:
        yield pa.array(strings, kind)
        yield pa.array(longer, kind).slice(2, len(strings))
    middle = len(strings) // 2
    yield pa.chunked_array([plain[:middle], plain[:0], plain[middle:]])
    yield plain.dictionary_encode()
    yield padded.dictionary_encode().slice(2, len(strings))


def expected(tokenizer, strings, **options):
    """The ids of each string, None for None."""
    return [None if string is None else tokenizer.encode(string, **options).tolist() for string in strings]


def listed(batch):
    """The ids of each document, None where it is null."""
    valid = np.ones(len(batch), bool) if batch.validity is None else batch.validity
    return [ids if is_valid else None for ids, is_valid in zip(batch.tolist(), valid, strict=True)]


def test_every_layout(gpt2):
    for column in layouts(TEXTS):
        batch = gpt2.encode_batch(column)
        assert listed(batch) == expected(gpt2, TEXTS), column.type
        assert gpt2.count_batch(column).tolist() == batch.lengths.tolist()


@settings(max_examples=25)
@given(texts)
def test_generated_columns(small_ranks, strings):
    for column in layouts(strings):
        assert listed(small_ranks.encode_batch(column)) == expected(small_ranks, strings)


def test_no_object_is_made_of_a_text(gpt2, monkeypatch):
    column = column_of(pa.array(TEXTS, pa.string_view()))
    monkeypatch.setattr(Column, "__getitem__", None)
    assert listed(gpt2.encode_batch(column)) == expected(gpt2, TEXTS)


def test_empty_columns(gpt2):
    for column in (*layouts([]), pa.chunked_array([], pa.string()), pa.array([], pa.null())):
        assert len(gpt2.encode_batch(column)) == 0
    batch = gpt2.encode_batch(pa.nulls(3))
    assert batch.validity.tolist() == [False] * 3
    assert len(gpt2.encode_batch(pa.array([None, None], pa.dictionary(pa.int8(), pa.string())))) == 2


def test_column_without_nulls_has_no_validity(gpt2):
    assert gpt2.encode_batch(pa.array(BATCH)).validity is None
    assert gpt2.encode_batch(pa.array(BATCH)) == gpt2.encode_batch(BATCH)


def test_polars(gpt2):
    polars = pytest.importorskip("polars", reason="polars is not installed")
    series = polars.Series("text", TEXTS)
    assert listed(gpt2.encode_batch(series)) == expected(gpt2, TEXTS)
    assert listed(gpt2.encode_batch(series.cast(polars.Categorical))) == expected(gpt2, TEXTS)
    with pytest.raises(TypeError, match="struct"):
        gpt2.encode_batch(series.to_frame())


def test_pandas(gpt2):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    series = pandas.Series(TEXTS, dtype=pandas.ArrowDtype(pa.large_string()))
    assert listed(gpt2.encode_batch(series)) == expected(gpt2, TEXTS)
    assert listed(gpt2.encode_batch(series.astype("string[pyarrow]"))) == expected(gpt2, TEXTS)
    assert gpt2.encode_batch(pandas.Series(BATCH, dtype=object)) == gpt2.encode_batch(BATCH)


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="this NumPy has no StringDType")
def test_string_dtype(gpt2):
    dtype = np.dtypes.StringDType(na_object=None)
    array = np.array(TEXTS, dtype)
    assert listed(gpt2.encode_batch(array)) == expected(gpt2, TEXTS)
    assert listed(gpt2.encode_batch(array[::-2])) == expected(gpt2, TEXTS[::-2])
    assert gpt2.encode_batch(np.array(BATCH, np.dtypes.StringDType())) == gpt2.encode_batch(BATCH)
    assert len(gpt2.encode_batch(array[:0])) == 0
    with pytest.raises(TypeError, match="2 dimensions"):
        gpt2.encode_batch(array.reshape(2, -1))


def test_arrays_that_are_no_strings(gpt2):
    for column in (pa.array([1, 2]), pa.array([["a"]]), pa.chunked_array([[1.5]])):
        with pytest.raises(TypeError, match="strings"):
            gpt2.encode_batch(column)
    with pytest.raises(TypeError, match=r"table\['text'\]"):
        gpt2.encode_batch(pa.table({"text": ["a"]}))


def test_text_that_is_not_utf8_is_named_or_replaced(gpt2):
    data = [b"fine", None, b"\xc3\xa9", b"bad \xff", b"", b"cut \xe2\x82"]
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
        column = pa.array(data, kind)
        with pytest.raises(UnicodeDecodeError, match="at index 3 of the batch"):
            gpt2.encode_batch(column)
        replaced = [text and text.decode("utf-8", "replace") for text in data]
        assert listed(gpt2.encode_batch(column, errors="replace")) == expected(gpt2, replaced)
    # Together the two would be a character: each text is looked at by itself.
    torn = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(np.array([0, 1, 2], np.int32)), pa.py_buffer(b"\xc3\xa9")]
    )
    with pytest.raises(UnicodeDecodeError, match="at index 0 of the batch"):
        gpt2.encode_batch(torn)


@pytest.mark.parametrize("ends", [[0, 5, 3, 6], [0, 3, 6, 60], [-4, 0, 3, 6]])
def test_damaged_arrays_are_refused(gpt2, ends):
    buffers = [None, pa.py_buffer(np.array(ends, np.int32)), pa.py_buffer(b"abcdef")]
    with pytest.raises((ValueError, pa.ArrowInvalid)):
        gpt2.encode_batch(pa.Array.from_buffers(pa.string(), 3, buffers))


@pytest.mark.parametrize("view", [[20, 0, 1, 0], [20, 0, 0, 10], [20, 0, -1, 0], [20, 0, 0, -1], [-1, 0, 0, 0]])
def test_damaged_views_are_refused(gpt2, view):
    buffers = [None, pa.py_buffer(np.array(view, np.int32)), pa.py_buffer(b"x" * 24)]
    with pytest.raises((ValueError, pa.ArrowInvalid)):
        gpt2.encode_batch(pa.Array.from_buffers(pa.string_view(), 1, buffers))


def test_disallowed_token_is_named_by_its_index_in_the_column(gpt2):
    with pytest.raises(ValueError, match="at byte 1 of the text at index 6 of the batch"):
        gpt2.encode_batch(pa.array(TEXTS), allowed_special=(), disallowed_special="all")


def test_pairs_are_null_where_either_is(small_merges):
    firsts, seconds = pa.array(["a", None, "c", "d"]), pa.array(["w", "x", None, "z"])
    batch = small_merges.encode_batch(firsts, seconds)
    assert batch.validity.tolist() == [True, False, False, True]
    assert batch[3].tolist() == small_merges.encode("d", "z").tolist()
    mixed = small_merges.encode_batch(["a", "b", "c", "d"], seconds)
    assert mixed.validity.tolist() == [True, True, False, True]
    with pytest.raises(ValueError, match="index 1 is null"):
        small_merges.encode_windows(firsts, max_length=4)
    assert len(small_merges.encode_windows(pa.array(["a", "b"]), max_length=4).batch) == 2


def test_offsets_of_tokens(gpt2):
    data = [b"na\xc3\xafve", None, b"bad \xff end"]
    batch = gpt2.encode_batch(pa.array(data, pa.binary()), return_offsets="byte", errors="replace")
    same = gpt2.encode_batch([data[0], data[2]], return_offsets="byte", errors="replace")
    assert batch.token_offsets.tolist() == same.token_offsets.tolist()


def test_other_arguments(gpt2):
    column = pa.array(BATCH)
    assert gpt2.encode_batch(column, dtype=np.uint16).ids.dtype == np.uint16
    out = np.empty(10_000, np.uint32)
    assert np.shares_memory(gpt2.encode_batch(column, out=out).ids, out)


@pytest.mark.parametrize("size", [10, 70_000, 1_000_000])
def test_many_ids_of_one_thread_as_uint16(small_ranks, size):
    """More than half as many as there are bytes: its buffer grows. What comes next is as it was."""
    column = pa.array(["qzxj" * (size // 4), None, "Hello world"])
    expected = small_ranks.encode_batch(column, num_threads=1)
    assert len(expected.ids) > size / 2
    out = np.empty(len(expected.ids), np.uint32)
    for options in ({"dtype": np.uint16}, {"out": out}, {"out": out.astype(np.uint16)}):
        assert small_ranks.encode_batch(column, num_threads=1, **options) == expected
        assert small_ranks.encode_batch(column, num_threads=1) == expected
        assert small_ranks.count("Hello world") == len(expected[2])


def test_null_documents_in_batches(gpt2):
    batch = gpt2.encode_batch(pa.array(TEXTS))
    nulls = [text is None for text in TEXTS]
    assert batch.to_arrow().is_null().to_pylist() == nulls
    assert batch.to_arrow().to_pylist() == listed(batch)
    assert gpt2.encode_batch(pa.array(TEXTS), dtype=np.uint16).to_arrow().type == pa.list_(pa.uint16())
    assert listed(batch[2:5]) == listed(batch)[2:5]
    assert listed(batch[::-1]) == listed(batch)[::-1]
    assert listed(batch.take([8, 0])) == [None, listed(batch)[0]]
    assert listed(numbatok.TokenBatch.concatenate([batch, gpt2.encode_batch(["a"])])) == [*listed(batch), [64]]
    assert pickle.loads(pickle.dumps(batch)) == batch
    assert batch != gpt2.encode_batch([text or "" for text in TEXTS])
    with pytest.raises(ValueError, match="null must have no ids"):
        numbatok.TokenBatch(batch.ids, batch.offsets, validity=np.zeros(len(batch), bool))
    with pytest.raises(TypeError, match="one element for each document"):
        numbatok.TokenBatch(batch.ids, batch.offsets, validity=np.ones(1, bool))

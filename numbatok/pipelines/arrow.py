"""Record batches of other engines: a column of texts to a column of ids.

What hands out Arrow batches can encode by :func:`encode_record_batch`:

>>> dataset.with_format("arrow").map(lambda table: encode_record_batch(table, tok), batched=True)  # datasets
>>> frame.mapInArrow(  # Spark, which has no unsigned integers
...     lambda batches: (encode_record_batch(batch, tok, dtype="int32") for batch in batches), "id int, ids array<int>"
... )
>>> frame.map_partitions(lambda part: encode_record_batch(pyarrow.Table.from_pandas(part), tok).to_pandas())  # Dask
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from numbatok.added_tokens import AllowedSpecial
from numbatok.columns import column_of
from numbatok.pipelines.ends import encode_ended, end_id
from numbatok.rows import library
from numbatok.text import Errors
from numbatok.tokenizer import Tokenizer

__all__ = ["encode_record_batch"]


def encode_record_batch(
    batch: Any,
    tokenizer: Tokenizer,
    column: str = "text",
    *,
    output: str = "ids",
    columns: Sequence[str] | None = None,
    append_eos: bool | str | int = False,
    dtype: npt.DTypeLike | None = None,
    errors: Errors = "strict",
    add_special_tokens: bool = True,
    allowed_special: AllowedSpecial = "all",
    disallowed_special: AllowedSpecial = (),
    num_threads: int | None = None,
) -> Any:
    """A ``pyarrow.RecordBatch``, or ``pyarrow.Table``, with ids in the place of texts.

    Parameters
    ----------
    batch : with a column of strings, or of UTF-8 as binary
    column : its name
    output : the name of the column of ids, which comes last; null where the text is
    columns : those that stay; by default all but ``column``
    append_eos : as :func:`numbatok.pipelines.encode_files` has it
    dtype : of the ids, any type of integers that holds them: the column is ``list<uint32>`` by default
    errors, add_special_tokens, allowed_special, disallowed_special, num_threads : as ``Tokenizer.encode_batch`` has
        them; so are the exceptions

    >>> encode_record_batch(pyarrow.table({"text": ["Hello world", None], "id": [1, 2]}), tok).to_pylist()
    [{'id': 1, 'ids': [15496, 995]}, {'id': 2, 'ids': None}]
    """
    pyarrow = library("pyarrow", "arrow", "encode_record_batch")
    if not isinstance(batch, pyarrow.RecordBatch | pyarrow.Table):
        raise TypeError(f"batch must be a pyarrow.RecordBatch or pyarrow.Table, not {type(batch).__name__}")
    names = batch.schema.names
    kept = [name for name in names if name != column] if columns is None else list(columns)
    for name in (column, *kept):
        if name not in names:
            raise ValueError(f"the batch has no column {name!r}, but {', '.join(map(repr, names)) or 'none'}")
    if output in kept:
        raise ValueError(f"the batch has a column {output!r}; choose another name with output=, or leave it out")
    id_type = pyarrow.from_numpy_dtype(list_id_type(dtype, tokenizer.vocab_size))
    texts = column_of(batch.column(column))
    assert texts is not None  # it is an Arrow array
    encoded = encode_ended(
        tokenizer,
        texts,
        end_id(tokenizer, append_eos),
        errors=errors,
        add_special_tokens=add_special_tokens,
        allowed_special=allowed_special,
        disallowed_special=disallowed_special,
        num_threads=num_threads,
    )
    ids = encoded.to_arrow().cast(pyarrow.list_(id_type))
    schema = pyarrow.schema([batch.schema.field(name) for name in kept] + [pyarrow.field(output, ids.type)])
    return type(batch).from_arrays([*(batch.column(name) for name in kept), ids], schema=schema)


def list_id_type(dtype: npt.DTypeLike | None, vocab_size: int) -> np.dtype[Any]:
    """The type of ids; TypeError or ValueError unless it is one of integers that holds all ids of a vocabulary."""
    try:
        wanted = np.dtype(np.uint32 if dtype is None else dtype).newbyteorder("=")
    except TypeError:
        raise TypeError(f"dtype must be a type of integers, such as 'int32', not {dtype!r}") from None
    if wanted.kind not in "iu":
        raise ValueError(f"ids can be of a type of integers, such as int32, not of {wanted}")
    limit = int(np.iinfo(wanted).max) + 1
    if vocab_size > limit:
        raise ValueError(f"{wanted} holds ids below {limit}, but this vocabulary has {vocab_size}; use a wider type")
    return wanted

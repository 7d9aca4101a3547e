"""Ray Data: a dataset's column of texts to ids, on as many machines as Ray has.

>>> import ray
>>> from numbatok.pipelines import ray as pipeline
>>> texts = ray.data.read_parquet("s3://corpus/", columns=["text", "url"])
>>> pipeline.encode(texts, numbatok.get_encoding("o200k_base"), append_eos=True).write_parquet("s3://tokens/")
"""

import inspect
from typing import Any

from numbatok.pipelines.arrow import encode_record_batch, list_id_type
from numbatok.pipelines.ends import end_id
from numbatok.rows import checked_number, library
from numbatok.tokenizer import Tokenizer

__all__ = ["encode"]


class _Actor:
    """One tokenizer, whose caches stay from batch to batch."""

    def __init__(self, tokenizer: Tokenizer, options: dict[str, Any]) -> None:
        self._tokenizer, self._options = tokenizer, options

    def __call__(self, table: Any) -> Any:
        return encode_record_batch(table, self._tokenizer, **self._options)


def encode(
    dataset: Any,
    tokenizer: Tokenizer,
    column: str = "text",
    *,
    actors: int | tuple[int, int] | None = None,
    num_cpus: int = 1,
    batch_size: int = 4096,
    **options: Any,
) -> Any:
    """A ``ray.data.Dataset`` with ids in the place of texts, which Ray makes when it is written or looked at.

    Parameters
    ----------
    dataset : a ``ray.data.Dataset`` with a column of strings
    column : its name
    actors : how many processes encode, or the least and most; by default from 1 to as many as Ray has processors for.
        Each has the tokenizer, and keeps its caches from batch to batch. What one that dies had in hand another does.
    num_cpus : processors of each, and threads unless ``num_threads`` says otherwise
    batch_size : rows that are encoded at once
    options : the keyword arguments of :func:`numbatok.pipelines.arrow.encode_record_batch`: ``output``, ``columns``,
        ``append_eos``, ``dtype`` and others

    Needs Ray: ``pip install numbatok[ray]``.
    """
    data = library("ray.data", "ray", "numbatok.pipelines.ray.encode")
    if not isinstance(tokenizer, Tokenizer):
        raise TypeError(f"tokenizer must be a numbatok.Tokenizer, not {type(tokenizer).__name__}")
    num_cpus = checked_number("num_cpus", num_cpus, 1)
    options = {"column": column, "num_threads": num_cpus, **options}
    # To refuse here what every actor would.
    inspect.signature(encode_record_batch).bind(None, tokenizer, **options)
    end_id(tokenizer, options.get("append_eos", False))
    list_id_type(options.get("dtype"), tokenizer.vocab_size)
    if actors is None:
        ray = library("ray", "ray", "numbatok.pipelines.ray.encode")
        if not ray.is_initialized():
            ray.init()
        actors = 1, max(1, int(ray.cluster_resources().get("CPU", 1)) // num_cpus)
    if isinstance(actors, tuple):
        compute = data.ActorPoolStrategy(min_size=actors[0], max_size=actors[1])
    else:
        compute = data.ActorPoolStrategy(size=checked_number("actors", actors, 1))
    return dataset.map_batches(
        _Actor,
        fn_constructor_args=(tokenizer, options),
        batch_format="pyarrow",
        batch_size=batch_size,
        zero_copy_batch=True,
        compute=compute,
        num_cpus=num_cpus,
    )

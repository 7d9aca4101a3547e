"""Where NumPy chooses integers of 32 bits, as on 64-bit Windows before NumPy 2, kernels get int64 all the same."""

import dataclasses
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import numbatok
import small
from numbatok import Tokenizer, decoders
from numbatok.normalizers import NFC, Lowercase, Prepend, Replace, Sequence
from numbatok.templates import Trim

MODULES = [
    *("alignment", "batch", "batch_streams", "budgets", "chunks", "counting", "offset_tables", "offsets"),
    *("prefix_cache", "rows", "stream_decoders", "streams", "truncation", "normalizers.edits", "normalizers.forms"),
]


def is_python(value: Any) -> bool:
    """Whether a value holds numbers of Python's alone, whose type is left to NumPy."""
    return all(map(is_python, value)) if isinstance(value, list | tuple) else type(value) in (int, bool)


def narrow(array: np.ndarray) -> np.ndarray:
    """An array of int64 as NumPy would have made it of Python's ints."""
    fits = array.dtype == np.int64 and (abs(array) < 1 << 31).all()
    return array.astype(np.int32) if fits else array


def _array(value: Any, dtype: Any = None) -> np.ndarray:
    made = np.array(value, dtype)
    return narrow(made) if dtype is None and is_python(value) else made


def _arange(*edges: Any, dtype: Any = None) -> np.ndarray:
    return narrow(np.arange(*edges)) if dtype is None and is_python(edges) else np.arange(*edges, dtype=dtype)


def _full(shape: Any, value: Any, dtype: Any = None) -> np.ndarray:
    return np.full(shape, _array(value), dtype)


def _cumsum(values: Any, dtype: Any = None, out: Any = None) -> np.ndarray:
    made = np.cumsum(values, dtype=dtype, out=out)
    is_small = is_python(values) or np.asarray(values).dtype.itemsize < 8
    return narrow(made) if is_small and dtype is None and out is None else made


def _where(condition: Any, *choices: Any) -> np.ndarray:
    return np.where(condition, *map(_array, choices))


def _concatenate(parts: Any, **options: Any) -> np.ndarray:
    return np.concatenate([*map(_array, parts)], **options)


NARROW = {
    "array": _array,
    "asarray": _array,
    "arange": _arange,
    "full": _full,
    "cumsum": _cumsum,
    "where": _where,
    "concatenate": _concatenate,
}


class NarrowNumPy(ModuleType):
    """NumPy whose own choice for integers is int32."""

    def __getattr__(self, name: str) -> Any:
        return NARROW.get(name) or getattr(np, name)


def tokenizers() -> dict[str, Tokenizer]:
    """The small vocabulary, plain, trimmed, normalized in several ways, and decoded in steps."""
    parts = small.by_merges().add_tokens([" the ", "<m>"], normalized=True)._parts
    one_for_one = Sequence((Prepend("_"), Replace(" ", "_")))
    changes: dict[str, dict[str, Any]] = {
        "plain": {},
        "trimmed": {"trims": (Trim(True),)},
        "composed": {"normalizer": NFC()},
        "lower": {"normalizer": Lowercase()},
        "one for one": {"normalizer": one_for_one},
        "longer": {"normalizer": Replace("a", "xyz"), "trims": (Trim(False),)},
        "steps": {"decoder": (decoders.Replace("e", "i"), decoders.Suffix("s"))},
        "strings": {"decoder": (decoders.ByteFallback(), decoders.Fuse())},
    }
    made = {name: Tokenizer(dataclasses.replace(parts, **change)) for name, change in changes.items()}
    return {**made, "gpt2": numbatok.get_encoding("gpt2")}


def results(tokenizer: Tokenizer) -> list[Any]:
    """What calls that make arrays for kernels give."""
    text = small.TEXT + " <m> THE e\u0301 the cat\n"
    found: list[Any] = []
    for unit in ("char", "byte"):
        batch = tokenizer.encode_batch([text, "", "The İ <m>"], return_offsets=unit)
        chosen = batch.take([2, 0]), batch[::-1], batch[1:]
        found += [(each.ids.tolist(), each.token_offsets.tolist(), each.token_offsets.dtype) for each in chosen]
        found.append([array.tolist() for array in tokenizer.encode_with_offsets(text, unit=unit)])
    long = text * 300
    count = tokenizer.count(text)
    for side in ("right", "left"):
        found += [tokenizer.truncate(text, share * count // 10, side) for share in (1, 5, 9)]
        if tokenizer.name:  # of others each part is counted whole
            found += [tokenizer.truncate(long, 250 * count, side), tokenizer.truncate("é" * 9000, 4000, side)]
    found += [tokenizer.chunk(text, 40, 7, at) for at in ("piece", "sentence", "paragraph")]
    ids = tokenizer.encode(text)
    streams = tokenizer.batch_stream_decoder(2)
    for given in ([5, 6], [ids[0], ids[1]], ids[:2]):
        found += [array.tolist() for array in streams.feed(given)]
    fed = streams.feed(ids, [0, len(ids) // 2, len(ids)])
    found += [(array.tolist(), array.dtype) for array in (*fed, *streams.finish())]
    cache = tokenizer.with_prefix_cache(1 << 20)
    return [*found, cache.encode(text).tolist(), cache.encode(text + text).tolist()]


def test_narrow_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offsets, budgets, streams and batches, on fresh tokenizers."""
    wanted = {name: results(tokenizer) for name, tokenizer in tokenizers().items()}
    for name in MODULES:
        monkeypatch.setattr(import_module(f"numbatok.{name}"), "np", NarrowNumPy("numpy"))
    for name, tokenizer in tokenizers().items():
        assert results(tokenizer) == wanted[name], name

"""numbatok: an exact tokenizer, faster than compiled ones on long texts and batches, that is Python to the last line.

>>> import numbatok
>>> tok = numbatok.get_encoding("gpt2")
>>> tok.encode("Hello world")
array([15496,   995], dtype=uint32)

Importing the package imports neither NumPy nor Numba; the first use of a name does what that name needs.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

#: Public names, each with the module that defines it: functions, errors, and the types of what they give.
_HOME = {
    "AddedToken": "numbatok.added_tokens",
    "BatchStreamDecoder": "numbatok.batch_streams",
    "CacheInfo": "numbatok.caches",
    "Chunk": "numbatok.budgets",
    "Display": "numbatok.displays.texts",
    "Explanation": "numbatok.explain",
    "Merge": "numbatok.explain",
    "Packed": "numbatok.rows",
    "Piece": "numbatok.explain",
    "PrefixCache": "numbatok.prefix_cache",
    "PrefixCacheInfo": "numbatok.prefix_cache",
    "StreamDecoder": "numbatok.stream_decoders",
    "StreamEncoder": "numbatok.streams",
    "TokenBatch": "numbatok.batch",
    "Tokenizer": "numbatok.tokenizer",
    "VocabularyError": "numbatok.errors",
    "VocabularyRow": "numbatok.tables",
    "VocabularyTable": "numbatok.tables",
    "Windows": "numbatok.windows",
    "encoding_for_model": "numbatok.loading.models",
    "encoding_name_for_model": "numbatok.loading.models",
    "get_cache_budget": "numbatok.caches",
    "get_encoding": "numbatok.loading.embedded",
    "get_num_threads": "numbatok.threads",
    "open_tokens": "numbatok.pipelines.tokens",
    "set_cache_budget": "numbatok.caches",
    "set_num_threads": "numbatok.threads",
}

__all__ = [
    "AddedToken",
    "BatchStreamDecoder",
    "CacheInfo",
    "Chunk",
    "Display",
    "Explanation",
    "Merge",
    "Packed",
    "Piece",
    "PrefixCache",
    "PrefixCacheInfo",
    "StreamDecoder",
    "StreamEncoder",
    "TokenBatch",
    "Tokenizer",
    "VocabularyError",
    "VocabularyRow",
    "VocabularyTable",
    "Windows",
    "__version__",
    "encoding_for_model",
    "encoding_name_for_model",
    "get_cache_budget",
    "get_encoding",
    "get_num_threads",
    "open_tokens",
    "set_cache_budget",
    "set_num_threads",
]

if TYPE_CHECKING:
    from numbatok.added_tokens import AddedToken
    from numbatok.batch import TokenBatch
    from numbatok.batch_streams import BatchStreamDecoder
    from numbatok.budgets import Chunk
    from numbatok.caches import CacheInfo, get_cache_budget, set_cache_budget
    from numbatok.displays.texts import Display
    from numbatok.errors import VocabularyError
    from numbatok.explain import Explanation, Merge, Piece
    from numbatok.loading.embedded import get_encoding
    from numbatok.loading.models import encoding_for_model, encoding_name_for_model
    from numbatok.pipelines.tokens import open_tokens
    from numbatok.prefix_cache import PrefixCache, PrefixCacheInfo
    from numbatok.rows import Packed
    from numbatok.stream_decoders import StreamDecoder
    from numbatok.streams import StreamEncoder
    from numbatok.tables import VocabularyRow, VocabularyTable
    from numbatok.threads import get_num_threads, set_num_threads
    from numbatok.tokenizer import Tokenizer
    from numbatok.windows import Windows


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'numbatok' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

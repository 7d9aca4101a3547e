"""numbatok: the fastest exact tokenizer that anyone can ``pip install`` without a compiler.

>>> import numbatok
>>> tok = numbatok.get_encoding("gpt2")
>>> tok.encode("Hello world")
array([15496,   995], dtype=uint32)

Importing the package imports neither NumPy nor Numba; the first use of a name does what that name needs.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

#: Public names, each with the module that defines it.
_HOME = {
    "AddedToken": "numbatok.added_tokens",
    "CacheInfo": "numbatok.caches",
    "TokenBatch": "numbatok.batch",
    "Tokenizer": "numbatok.tokenizer",
    "VocabularyError": "numbatok.errors",
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
    "CacheInfo",
    "TokenBatch",
    "Tokenizer",
    "VocabularyError",
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
    from numbatok.caches import CacheInfo, get_cache_budget, set_cache_budget
    from numbatok.errors import VocabularyError
    from numbatok.loading.embedded import get_encoding
    from numbatok.loading.models import encoding_for_model, encoding_name_for_model
    from numbatok.pipelines.tokens import open_tokens
    from numbatok.threads import get_num_threads, set_num_threads
    from numbatok.tokenizer import Tokenizer


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'numbatok' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

"""Encodings by name: those inside numbatok, and those of plugins in the namespace package ``tiktoken_ext``."""

import functools
import importlib
import pkgutil
import threading
from collections.abc import Callable, Sequence
from typing import Any

from numbatok.compat.tiktoken.core import Encoding
from numbatok.loading import embedded
from numbatok.locks import taken_by_fork
from numbatok.patterns.known import TIKTOKEN_GPT2

_lock = threading.RLock()
taken_by_fork.insert(0, _lock)  # a child would wait for ever for an encoding that was being made
#: The encodings that :func:`get_encoding` has given so far.
ENCODINGS: dict[str, Encoding] = {}
#: What makes the arguments of each encoding; None until someone asks for all names, or for one that is not embedded.
ENCODING_CONSTRUCTORS: dict[str, Callable[[], dict[str, Any]]] | None = None

# The embedded encodings under another spelling of GPT-2's pattern than tiktoken's, by which programs know it.
_PATTERNS = dict.fromkeys(("gpt2", "r50k_base", "p50k_base", "p50k_edit"), TIKTOKEN_GPT2)
_EXPLICIT_N_VOCAB = {"gpt2": 50257, "r50k_base": 50257, "p50k_base": 50281}
# tiktoken's own plugin, which has the embedded encodings, and imports tiktoken.
_OWN_PLUGIN = "tiktoken_ext.openai_public"


def _embedded_arguments(name: str) -> dict[str, Any]:
    """The arguments with which ``Encoding`` makes an embedded encoding."""
    encoding = embedded.ENCODINGS[name]
    arguments: dict[str, Any] = {
        "name": name,
        "pat_str": _PATTERNS.get(name, encoding.pattern),
        "mergeable_ranks": dict(zip(*embedded.load_ranks(encoding.ranks), strict=True)),
        "special_tokens": dict(encoding.special_tokens),
    }
    if name in _EXPLICIT_N_VOCAB:
        arguments["explicit_n_vocab"] = _EXPLICIT_N_VOCAB[name]
    return arguments


@functools.lru_cache
def _available_plugin_modules() -> Sequence[str]:
    """The names of the modules in ``tiktoken_ext``, without tiktoken's own."""
    try:
        import tiktoken_ext
    except ImportError:
        return []
    found = pkgutil.iter_modules(tiktoken_ext.__path__, "tiktoken_ext.")
    return [module.name for module in found if module.name != _OWN_PLUGIN]


def _find_constructors() -> dict[str, Callable[[], dict[str, Any]]]:
    """:data:`ENCODING_CONSTRUCTORS`, made at the first call; ValueError for a plugin that has none, or a known name."""
    global ENCODING_CONSTRUCTORS
    with _lock:
        if ENCODING_CONSTRUCTORS is not None:
            return ENCODING_CONSTRUCTORS
        constructors: dict[str, Callable[[], dict[str, Any]]] = {
            name: functools.partial(_embedded_arguments, name) for name in embedded.ENCODINGS
        }
        for module in _available_plugin_modules():
            offered = getattr(importlib.import_module(module), "ENCODING_CONSTRUCTORS", None)
            if offered is None:
                raise ValueError(f"the plugin {module} does not define ENCODING_CONSTRUCTORS")
            for name, constructor in offered.items():
                if name in constructors:
                    raise ValueError(f"the plugin {module} defines the encoding {name!r}, which is there already")
                constructors[name] = constructor
        ENCODING_CONSTRUCTORS = constructors
        return constructors


def _make(name: str) -> Encoding:
    """A new encoding; ValueError for an unknown name. Plugins are looked at only for names that are not embedded."""
    if name in embedded.ENCODINGS:
        encoding = embedded.ENCODINGS[name]
        pattern = _PATTERNS.get(name, encoding.pattern)
        return Encoding._of_tokenizer(embedded.get_encoding(name), pattern, dict(encoding.special_tokens))
    constructors = _find_constructors()
    if name not in constructors:
        raise ValueError(
            f"unknown encoding {name!r}. Known are {', '.join(constructors)}; plugins found: "
            f"{', '.join(_available_plugin_modules()) or 'none'}"
        )
    return Encoding(**constructors[name]())


def get_encoding(encoding_name: str) -> Encoding:
    """The encoding of a name, the same object each time; ValueError for an unknown name."""
    if not isinstance(encoding_name, str):
        raise ValueError(f"an encoding's name must be a string, not {type(encoding_name).__name__}")
    known = ENCODINGS.get(encoding_name)
    if known is not None:
        return known
    with _lock:
        if encoding_name not in ENCODINGS:
            ENCODINGS[encoding_name] = _make(encoding_name)
        return ENCODINGS[encoding_name]


def list_encoding_names() -> list[str]:
    """The names that :func:`get_encoding` takes, those of plugins last."""
    return list(_find_constructors())

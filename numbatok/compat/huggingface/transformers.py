"""Tokenizers of ``transformers`` that encode and decode with numbatok.

A tokenizer keeps its class, its settings and its ``tokenizers`` backend, which go on saving, naming and adding tokens.
What is put before its class takes over two things: texts to ids, and ids to texts. Where the backend is changed, by
whatever method, it is read again.
"""

import copy
import functools
import inspect
import os
import sys
import threading
import warnings
from collections.abc import Callable, Collection, Iterable
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from numbatok.batch import TokenBatch
from numbatok.compat.huggingface.calls import Encodings, Settings
from numbatok.compat.huggingface.encoding import Encoding
from numbatok.compat.huggingface.model import Model
from numbatok.compat.huggingface.tokenizer import Tokenizer
from numbatok.errors import VocabularyError

_STATE = "_numbatok"
#: Arguments of a call that arrays are not made for at once.
_DETAILS = ("return_overflowing_tokens", "return_special_tokens_mask", "return_offsets_mapping", "is_split_into_words")


class _Read(NamedTuple):
    """What a backend was read as; ``model`` is None where numbatok does not support it."""

    mark: object
    following: int
    model: Model | None


def _library() -> Any:
    """The module of transformers that holds its fast tokenizers' base class."""
    try:
        from transformers import tokenization_utils_tokenizers
    except ImportError as error:
        version = getattr(sys.modules.get("transformers"), "__version__", None)
        found = str(error) if version is None else f"{version} is installed"
        raise ImportError(f"this needs transformers 5 or newer ({found}): pip install numbatok[transformers]") from None
    return tokenization_utils_tokenizers


@functools.cache
def _options(method: str) -> dict[str, Any]:
    """The options of a method of transformers' own tokenizers, with their defaults."""
    parameters = inspect.signature(getattr(_library().TokenizersBackend, method)).parameters.values()
    return {parameter.name: parameter.default for parameter in parameters if parameter.default is not parameter.empty}


def _warn_of_unknown(options: Iterable[str], known: Collection[str]) -> None:
    """Say that transformers passes over options that it does not know."""
    unknown = [name for name in options if name not in known]
    if unknown:
        warnings.warn(
            f"transformers knows no option {', '.join(unknown)} of its tokenizers, which does nothing",
            UserWarning,
            stacklevel=4,  # of what calls the tokenizer
        )


class NumbatokTokenizer:
    """What :func:`from_transformers` puts before a tokenizer's class."""

    _tokenizer: Any

    def _read_backend(self) -> Model | None:
        """The model of the backend as it is now, or None where numbatok does not support it."""
        backend = self._tokenizer
        try:
            mark = _mark_of(backend)
        except Exception:  # of components written in Python
            mark = None
        known: _Read | None = self.__dict__.get(_STATE)
        if known is None or known.mark != mark or backend.id_to_token(known.following) is not None:
            try:
                known = _read(backend, mark)
            except (VocabularyError, NotImplementedError) as error:
                known = _Read(mark, 0xFFFFFFFF, None)
                warnings.warn(
                    f"the tokenizer is encoded with transformers' own library from now on: {error}",
                    RuntimeWarning,
                    stacklevel=4,
                )
            self.__dict__[_STATE] = known
        return known.model

    def _add_tokens(self, new_tokens: Any, special_tokens: bool = False) -> int:
        count: int = super()._add_tokens(new_tokens, special_tokens=special_tokens)  # type: ignore[misc]
        self.__dict__.pop(_STATE, None)
        return count

    def _encode_plus(self, text: Any, text_pair: Any = None, **options: Any) -> Any:
        _warn_of_unknown(options, (*_options("_encode_plus"), "sanitize_control_tokens"))
        model = None if options.get("sanitize_control_tokens") else self._read_backend()
        if model is None:
            return super()._encode_plus(text, text_pair, **options)  # type: ignore[misc]
        made = self._encode_to_arrays(model, text, text_pair, {**_options("_encode_plus"), **options})
        if made is not None:
            return made
        # Its own code, for this call with a backend of numbatok's: no thread sees another one's settings.
        alike = object.__new__(type(self))
        alike.__dict__.update(self.__dict__, _tokenizer=Tokenizer._of(Settings(model)))
        return super(NumbatokTokenizer, alike)._encode_plus(text, text_pair, **options)  # type: ignore[misc]

    def _encode_to_arrays(self: Any, model: Model, text: Any, text_pair: Any, options: dict[str, Any]) -> Any:
        """The arrays or tensors of texts, or pairs of texts, without a list of any of them; None for all else."""
        kind = options.get("return_tensors")
        kind = getattr(kind, "value", kind)
        if kind not in ("np", "pt") or any(options.get(name) for name in _DETAILS):
            return None
        firsts, seconds = (_texts_of(each) for each in (text, text_pair or None))
        if (
            not firsts
            or (text_pair and (not seconds or len(firsts) != len(seconds)))
            or isinstance(text, str) != (isinstance(text_pair, str) if text_pair else isinstance(text, str))
        ):
            return None
        as_tensor: Callable[[Any], Any] = np.asarray
        if kind == "pt":
            try:
                import torch
            except ImportError:
                return None
            as_tensor = torch.from_numpy
        backend = Tokenizer._of(Settings(model))
        alike = object.__new__(type(self))
        alike.__dict__.update(self.__dict__, _tokenizer=backend)
        names = "padding_strategy truncation_strategy max_length stride pad_to_multiple_of padding_side".split()
        alike.set_truncation_and_padding(**{name: options[name] for name in names})
        split = options.get("split_special_tokens")
        backend.encode_special_tokens = self.split_special_tokens if split is None else split
        settings = backend._settings
        made = Encodings(settings, firsts, seconds, bool(options["add_special_tokens"]), False)
        made.pad(made.longest)
        lengths = np.diff(made.edges)
        width = max(made.width, made.longest)
        padding = settings.padding
        if max(int(lengths.min()), made.width) < width:
            return None  # rows of different lengths: an error, which transformers words
        side = "right" if padding is None else padding.direction
        names = self.model_input_names
        batch = TokenBatch(made.ids, made.edges)
        ids, mask = batch.to_padded(0 if padding is None else padding.pad_id, length=width, side=side)
        data = {"input_ids": as_tensor(ids.astype(np.int64))}
        if _wanted(options.get("return_token_type_ids"), "token_type_ids" in names):
            types = np.zeros(len(made.ids), np.uint32) if made.types is None else made.types
            filling = 0 if padding is None else padding.pad_type_id
            rows, _ = TokenBatch(types, made.edges).to_padded(filling, length=width, side=side)
            data["token_type_ids"] = as_tensor(rows.astype(np.int64))
        if _wanted(options.get("return_attention_mask"), "attention_mask" in names):
            data["attention_mask"] = as_tensor(mask.astype(np.int64))
        if options.get("return_length"):
            data["length"] = as_tensor(np.full(len(firsts), width, np.int64))
        self._eventual_warn_about_too_long_sequence(range(width), options.get("max_length"), options["verbose"])
        encodings = [Encoding._of_row(made, row) for row in range(len(firsts))]
        from transformers import BatchEncoding

        return BatchEncoding(data, encodings, n_sequences=encodings[0].n_sequences)

    def decode(self, token_ids: Any, skip_special_tokens: bool = False, **options: Any) -> Any:
        """The text of ids, or of many sequences of ids those of each; see transformers."""
        options = self._known_of(options)
        texts = self._decode_many(token_ids, skip_special_tokens, options)
        return super().decode(token_ids, skip_special_tokens, **options) if texts is None else texts  # type: ignore[misc]

    def batch_decode(self, sequences: Any, skip_special_tokens: bool = False, *arguments: Any, **options: Any) -> Any:
        """The text of each sequence of ids; see transformers."""
        options = self._known_of(options)
        texts = None if arguments else self._decode_many(sequences, skip_special_tokens, options)
        if texts is None:
            return super().batch_decode(sequences, skip_special_tokens, *arguments, **options)  # type: ignore[misc]
        return texts

    def _known_of(self, options: dict[str, Any]) -> dict[str, Any]:
        """The options of decoding that transformers knows, with a warning of others, unless the class has own ones."""
        if not options or not self._decodes_plainly(("decode", "_decode")):
            return options
        known = {"clean_up_tokenization_spaces", "use_source_tokenizer"}
        _warn_of_unknown(options, known)
        return {name: value for name, value in options.items() if name in known}

    def _decodes_plainly(self, methods: tuple[str, ...]) -> bool:
        """Whether the class has these methods of transformers' own."""
        base, plain = _base_of(type(self)), _library().TokenizersBackend
        return all(getattr(base, method) is getattr(plain, method) for method in methods)

    def _decode_many(self, sequences: Any, skip_special_tokens: bool, options: dict[str, Any]) -> list[str] | None:
        """The text of each sequence of ids; None where transformers' own code has to look at what they are."""
        are_lists = isinstance(sequences, list | tuple) and set(map(type, sequences)) == {list}
        if not are_lists and not (isinstance(sequences, np.ndarray) and sequences.ndim == 2 and len(sequences)):
            return None
        if not options.keys() <= {"clean_up_tokenization_spaces"}:
            return None
        model = self._model_to_decode(options.get("clean_up_tokenization_spaces"), ("decode", "_decode"))
        if model is None:
            return None
        try:
            return model.decode_batch(sequences, bool(skip_special_tokens))
        except (TypeError, OverflowError):
            return None

    def _decode(
        self,
        token_ids: Any,
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
        **options: Any,
    ) -> str:
        own: Any = super()
        model = None
        if not options and not isinstance(token_ids, dict):
            model = self._model_to_decode(clean_up_tokenization_spaces, ("_decode",))
        if model is None:
            text: str = own._decode(token_ids, skip_special_tokens, clean_up_tokenization_spaces, **options)
            return text
        ids = [token_ids] if isinstance(token_ids, int) else token_ids
        return model.decode(ids, bool(skip_special_tokens))

    def _model_to_decode(self: Any, cleans: bool | None, methods: tuple[str, ...]) -> Model | None:
        """What decodes, if the class has these methods of transformers' own, and texts are not cleaned up after."""
        if not self._decodes_plainly(methods):
            return None
        if self.clean_up_tokenization_spaces if cleans is None else cleans:
            return None
        model: Model | None = self._read_backend()
        return model

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        state = {name: value for name, value in self.__dict__.items() if name != _STATE}
        return _restored, (_base_of(type(self)), state)


def _wanted(asked: bool | None, default: bool) -> bool:
    return default if asked is None else asked


def _texts_of(given: Any) -> list[str] | None:
    """The texts of an argument, or None where it is something else."""
    if isinstance(given, str):
        return [given]
    return list(given) if isinstance(given, list | tuple) and set(map(type, given)) == {str} else None


def _mark_of(backend: Any) -> object:
    """What tells whether a backend was changed, at a microsecond: its components but for the vocabulary."""
    parts = backend.normalizer, backend.pre_tokenizer, backend.post_processor, backend.decoder
    return *(part and part.__getstate__() for part in parts), getattr(backend.model, "dropout", None)


def _read(backend: Any, mark: object) -> _Read:
    model = Tokenizer.from_huggingface(backend)._settings.model
    return _Read(mark, model.following, model)


_classes: dict[type, Any] = {}


def _class_of(base: type) -> Any:
    """The class of tokenizers of ``base`` that encode with numbatok; it goes by the same name, which is saved."""
    if base not in _classes:
        names = {"__module__": base.__module__, "__doc__": base.__doc__}
        _classes[base] = type(base.__name__, (NumbatokTokenizer, base), names)
    return _classes[base]


def _base_of(kind: type) -> type:
    """The class of transformers that a class is made of."""
    return next(each for each in kind.__mro__ if not issubclass(each, NumbatokTokenizer) and each is not object)


def _restored(base: type, state: dict[str, Any]) -> Any:
    """A copied or unpickled tokenizer."""
    tokenizer = object.__new__(_class_of(base))
    tokenizer.__dict__.update(state)
    return tokenizer


def _adopt(tokenizer: Any) -> Any:
    """Let a tokenizer encode with numbatok from now on; NotImplementedError or VocabularyError where it can't."""
    kind, plain = type(tokenizer), _library().TokenizersBackend
    if not issubclass(kind, plain):
        raise NotImplementedError(
            f"{kind.__name__} is not supported: wanted a tokenizer of transformers with a backend of tokenizers "
            "(is_fast), such as AutoTokenizer.from_pretrained gives; use it as it is"
        )
    if issubclass(kind, NumbatokTokenizer):
        return tokenizer
    if kind._encode_plus is not plain._encode_plus:
        raise NotImplementedError(f"{kind.__name__} is not supported: it encodes in a way of its own; use it as it is")
    backend = tokenizer._tokenizer
    try:
        mark = _mark_of(backend)
    except Exception as error:
        raise NotImplementedError(
            f"a tokenizer with components written in Python is not supported ({error}); use it as it is"
        ) from None
    tokenizer.__dict__[_STATE] = _read(backend, mark)
    tokenizer.__class__ = _class_of(kind)
    return tokenizer


def from_transformers(tokenizer: Any, **options: Any) -> Any:
    """A tokenizer of ``transformers`` that encodes and decodes with numbatok.

    Parameters
    ----------
    tokenizer : a fast tokenizer, of which a copy is made; or the name of a model or a directory, which
        ``AutoTokenizer.from_pretrained`` loads
    options : for ``from_pretrained``

    Returns
    -------
    A tokenizer of the same class and with the same results. ``is_split_into_words``, overflowing tokens, offsets,
    templates of chats, added tokens, saving, pickling are there as before; arrays and tensors are made without lists
    between. Threads may share it, with other settings in each call. A change of its ``backend_tokenizer`` is noticed,
    but for flags of tokens that are there already.

    Raises NotImplementedError for one that is not fast, or encodes in a way of its own, and VocabularyError for a
    backend that numbatok does not support. Needs transformers 5: ``pip install numbatok[transformers]``.

    >>> tokenizer = from_transformers("gpt2")
    >>> tokenizer(["Hello world", "again"], return_tensors="np")
    """
    _library()
    if isinstance(tokenizer, str | os.PathLike):
        from transformers import AutoTokenizer

        return _adopt(_original(AutoTokenizer)(os.fspath(tokenizer), **options))
    if options:
        raise TypeError(f"{', '.join(options)}: options are for loading by a name, and a tokenizer is given")
    if not hasattr(tokenizer, "_tokenizer"):
        return _adopt(tokenizer)  # raises
    return _adopt(copy.deepcopy(tokenizer))


# --- AutoTokenizer ---

_lock = threading.Lock()
_patch: "_Patch | None" = None  # the one that is there


def _original(auto: Any) -> Callable[..., Any]:
    """``AutoTokenizer.from_pretrained`` as it is without a patch."""
    found: Callable[..., Any] = auto.from_pretrained if _patch is None else _patch.before.__get__(None, auto)
    return found


class _Patch:
    """What ``patch_transformers`` returns: a context that ends with the patch, if it began with it."""

    before: Any = None  # what AutoTokenizer.from_pretrained was
    during: Any = None  # what it is meanwhile

    def __enter__(self) -> "_Patch":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if _patch is self:
            unpatch_transformers()


def patch_transformers() -> _Patch:
    """Let ``AutoTokenizer.from_pretrained`` give tokenizers that encode with numbatok, where they are supported.

    Others are returned as they are. :func:`unpatch_transformers` ends it; so does the context, if it is used as one:

    >>> with patch_transformers():
    ...     tokenizer = AutoTokenizer.from_pretrained("gpt2")
    """
    global _patch
    _library()
    from transformers import AutoTokenizer

    made = _Patch()
    with _lock:
        if _patch is not None:
            return made
        before = made.before = AutoTokenizer.__dict__["from_pretrained"]

        @functools.wraps(getattr(before, "__func__", before))
        def from_pretrained(cls: Any, *arguments: Any, **options: Any) -> Any:
            tokenizer = before.__get__(None, cls)(*arguments, **options)
            if _patch is not made:  # someone else has put something around this, which is still there
                return tokenizer
            try:
                return _adopt(tokenizer)
            except (NotImplementedError, VocabularyError):
                return tokenizer

        made.during = classmethod(from_pretrained)
        AutoTokenizer.from_pretrained = made.during
        _patch = made
    return made


def unpatch_transformers() -> None:
    """Let ``AutoTokenizer.from_pretrained`` be what it was; tokenizers that it gave meanwhile stay as they are."""
    global _patch
    with _lock:
        if _patch is None:
            return
        from transformers import AutoTokenizer

        if AutoTokenizer.__dict__["from_pretrained"] is _patch.during:
            AutoTokenizer.from_pretrained = _patch.before
        _patch = None

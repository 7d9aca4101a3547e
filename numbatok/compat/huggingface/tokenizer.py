"""``tokenizers.Tokenizer`` over :class:`numbatok.Tokenizer`."""

import asyncio
import json
import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, NoReturn

import numpy as np

from numbatok.compat.huggingface import settings as settings_of
from numbatok.compat.huggingface.absent import NotSupportedError
from numbatok.compat.huggingface.added_token import AddedToken, as_added
from numbatok.compat.huggingface.calls import Encodings, Settings, Short, malformed
from numbatok.compat.huggingface.encoding import Encoding
from numbatok.compat.huggingface.inputs import as_text, as_words, is_sequence, pair_of_texts, pair_of_words
from numbatok.compat.huggingface.model import Model
from numbatok.compat.huggingface.settings import checked_flag as flag
from numbatok.compat.huggingface.settings import checked_id, checked_text
from numbatok.errors import VocabularyError
from numbatok.loading import tokenizer_json
from numbatok.loading.saving import dumps
from numbatok.memory import without_collection
from numbatok.tokenizer import Tokenizer as Core
from numbatok.writing import write_whole


class Tokenizer:
    """A byte-level BPE tokenizer as ``tokenizers`` 0.23 has it, which is neither imported nor needed.

    Made by :meth:`from_file`, :meth:`from_str`, :meth:`from_buffer` and :meth:`from_pretrained`, or from a tokenizer
    that is there already by :meth:`from_numbatok` and :meth:`from_huggingface`. Results are those of ``tokenizers``,
    but: fields of encodings are made when they are asked for, so ``encode_batch_fast`` has all that ``encode_batch``
    has; where ``tokenizers`` panics there is a ValueError, and a TypeError where it prints that it ignores an option.

    Padding, truncation and added tokens are the object's. Each call takes them as they are when it begins, so threads
    may share an object, and change it, safely.

    >>> tokenizer = Tokenizer.from_file("tokenizer.json")
    >>> [encoding.ids for encoding in tokenizer.encode_batch_fast(["Hello world", "again"])]
    [[15496, 995], [17776]]
    """

    _settings: Settings
    _lock: threading.Lock

    def __init__(self, model: object = None) -> None:
        raise NotImplementedError(
            "Tokenizer(model) puts a tokenizer together from its parts, which numbatok does not; load a tokenizer.json "
            "by Tokenizer.from_file(path) or from_str(json), or put it together with tokenizers, and pass it to "
            "Tokenizer.from_huggingface(tokenizer)"
        )

    # --- loading and saving ---

    @classmethod
    def _of(cls, settings: Settings) -> "Tokenizer":
        tokenizer = cls.__new__(cls)
        tokenizer._settings = settings
        tokenizer._lock = threading.Lock()
        return tokenizer

    @classmethod
    def from_numbatok(cls, tokenizer: Core) -> "Tokenizer":
        """The interface over a :class:`numbatok.Tokenizer`."""
        if not isinstance(tokenizer, Core):
            raise TypeError(f"tokenizer must be a numbatok.Tokenizer, not {type(tokenizer).__name__}")
        return cls._of(Settings(Model(tokenizer)))

    @classmethod
    def from_huggingface(cls, tokenizer: Any) -> "Tokenizer":
        """Take over a ``tokenizers.Tokenizer``, with its padding and truncation."""
        if not hasattr(tokenizer, "to_str"):
            raise TypeError(f"tokenizer must be a tokenizers.Tokenizer, not {type(tokenizer).__name__}")
        made = cls.from_str(tokenizer.to_str())
        made.encode_special_tokens = tokenizer.encode_special_tokens
        return made

    @classmethod
    def _from_json(cls, content: bytes, name: str) -> "Tokenizer":
        def made() -> Settings:
            sections = tokenizer_json.decode(content)
            padding = truncation = None
            if isinstance(sections, dict):
                padding = settings_of.padding_from_json(sections.get("padding"))
                truncation = settings_of.truncation_from_json(sections.get("truncation"))
                sections |= {"padding": None, "truncation": None}
            return Settings(Model(Core(tokenizer_json.build(sections, name))), padding, truncation)

        try:
            return cls._of(without_collection(made))
        except VocabularyError as error:
            raise NotSupportedError.of(error) from None

    @classmethod
    def from_str(cls, json: str) -> "Tokenizer":
        """Load the content of a ``tokenizer.json``.

        What is not supported, or broken, raises an error that is a ValueError, as in ``tokenizers``, and a
        NotImplementedError.
        """
        return cls._from_json(checked_text("json", json).encode(), "")

    @classmethod
    def from_buffer(cls, buffer: bytes) -> "Tokenizer":
        """Load the content of a ``tokenizer.json`` in bytes."""
        if not isinstance(buffer, bytes | bytearray | memoryview):
            raise TypeError(f"buffer must be bytes, not {type(buffer).__name__}")
        return cls._from_json(bytes(buffer), "")

    @classmethod
    def from_file(cls, path: str | PathLike[str]) -> "Tokenizer":
        """Load a ``tokenizer.json``; or what else :meth:`numbatok.Tokenizer.from_file` loads."""
        if os.path.isdir(path):
            return cls.from_numbatok(Core.from_file(path))
        with open(path, "rb") as file:
            content = file.read()
        if content.lstrip()[:1] != b"{" or b'"model"' not in content:
            return cls.from_numbatok(Core.from_file(path))
        try:
            return cls._from_json(content, str(path))
        except NotSupportedError as error:
            raise NotSupportedError(f"{os.fspath(path)}: {error}") from None

    @classmethod
    def from_pretrained(cls, identifier: str, revision: str = "main", token: str | None = None) -> "Tokenizer":
        """Load the tokenizer of a model on the Hugging Face Hub, or in a directory.

        Needs ``huggingface_hub`` for the Hub: ``pip install numbatok[hub]``.
        """
        if os.path.isdir(identifier):
            path = os.path.join(identifier, "tokenizer.json")
            return cls.from_file(path if os.path.exists(path) else identifier)
        from numbatok.loading.hub import Repository

        repository = Repository(identifier, revision=revision, token=token, local_files_only=False)
        found = repository.fetch("tokenizer.json")
        if found is not None:
            return cls.from_file(found)
        return cls.from_numbatok(Core.from_pretrained(identifier, revision=revision, token=token))

    def to_str(self, pretty: bool = False) -> str:
        """The content of a ``tokenizer.json`` that ``tokenizers`` loads, with padding and truncation."""
        now = self._settings
        content = json.loads(dumps(now.model.parts))
        content["truncation"] = None if now.truncation is None else now.truncation.to_json()
        content["padding"] = None if now.padding is None else now.padding.to_json()
        if flag("pretty", pretty):
            return json.dumps(content, ensure_ascii=False, indent=2)
        return json.dumps(content, ensure_ascii=False, separators=(",", ":"))

    def save(self, path: str | PathLike[str], pretty: bool = True) -> None:
        """Write :meth:`to_str` to a file, which appears whole or not at all."""
        write_whole(self.to_str(pretty).encode(), path)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        now = self._settings
        return _made, (now.model.core, now.padding, now.truncation, now.specials_as_text)

    def __repr__(self) -> str:
        return f"<numbatok.compat.huggingface.Tokenizer {self.get_vocab_size()} tokens>"

    # --- settings ---

    def _change(self, **settings: Any) -> None:
        self._settings = self._settings._replace(**settings)

    def enable_padding(
        self,
        *,
        direction: str = "right",
        pad_id: int = 0,
        pad_type_id: int = 0,
        pad_token: str = "[PAD]",
        length: int | None = None,
        pad_to_multiple_of: int | None = None,
    ) -> None:
        """Pad encodings to ``length``, or else those of a batch to the longest, from the next call on."""
        wanted = settings_of.padding(direction, pad_id, pad_type_id, pad_token, length, pad_to_multiple_of)
        with self._lock:
            self._change(padding=wanted)

    def no_padding(self) -> None:
        """Pad no more."""
        with self._lock:
            self._change(padding=None)

    @property
    def padding(self) -> dict[str, Any] | None:
        """The padding, or None."""
        now = self._settings.padding
        return None if now is None else now._asdict()

    def enable_truncation(
        self, max_length: int, *, stride: int = 0, strategy: str = "longest_first", direction: str = "right"
    ) -> None:
        """Truncate encodings to ``max_length`` ids, special tokens of the template among them, from the next call on.

        Raises ValueError where that leaves fewer than ``stride`` ids of a text; calls do where it leaves no more.
        """
        wanted = settings_of.truncation(max_length, stride, strategy, direction)
        with self._lock:
            added = self._settings.model.specials_added(False)
            if 0 <= wanted.max_length - added < wanted.stride:
                raise ValueError(
                    f"stride is {wanted.stride}, and of max_length {wanted.max_length} the template's {added} special "
                    f"tokens leave {wanted.max_length - added}; pass a smaller stride"
                )
            self._change(truncation=wanted)

    def no_truncation(self) -> None:
        """Truncate no more."""
        with self._lock:
            self._change(truncation=None)

    @property
    def truncation(self) -> dict[str, Any] | None:
        """The truncation, or None."""
        now = self._settings.truncation
        return None if now is None else now._asdict()

    @property
    def encode_special_tokens(self) -> bool:
        """Whether special tokens in a text are ordinary text."""
        return self._settings.specials_as_text

    @encode_special_tokens.setter
    def encode_special_tokens(self, value: bool) -> None:
        with self._lock:
            self._change(specials_as_text=flag("encode_special_tokens", value))

    # --- vocabulary ---

    def token_to_id(self, token: str) -> int | None:
        """The id of a token in the vocabulary's spelling, or None."""
        return self._settings.model.full_vocab.get(checked_text("token", token))

    def id_to_token(self, id: int) -> str | None:
        """The token of an id in the vocabulary's spelling, or None."""
        return self._settings.model.names.get(checked_id("id", id))

    def get_vocab(self, with_added_tokens: bool = True) -> dict[str, int]:
        """The id of each token in the vocabulary's spelling."""
        model = self._settings.model
        return dict(model.full_vocab if flag("with_added_tokens", with_added_tokens) else model.vocab)

    def get_vocab_size(self, with_added_tokens: bool = True) -> int:
        """How many tokens there are."""
        model = self._settings.model
        return len(model.full_vocab if flag("with_added_tokens", with_added_tokens) else model.vocab)

    def get_added_tokens_decoder(self) -> dict[int, AddedToken]:
        """The added tokens by their ids."""
        return {
            token.id: AddedToken(
                token.content,
                single_word=token.single_word,
                lstrip=token.lstrip,
                rstrip=token.rstrip,
                normalized=token.normalized,
                special=token.special,
            )
            for token in self._settings.model.parts.added_tokens
        }

    def add_tokens(self, tokens: Sequence[Any]) -> int:
        """Add tokens, each a ``str`` or an AddedToken; returns how many were not there just so."""
        return self._add(tokens, special=False)

    def add_special_tokens(self, tokens: Sequence[Any]) -> int:
        """Add special tokens, each a ``str`` or an AddedToken; returns how many were not there just so."""
        return self._add(tokens, special=True)

    def _add(self, tokens: Sequence[Any], special: bool) -> int:
        if isinstance(tokens, str) or not isinstance(tokens, Iterable):
            raise TypeError(f"tokens must be a list of str or AddedToken, not {type(tokens).__name__}")
        wanted = [as_added(token, special) for token in tokens]
        with self._lock:
            model = self._settings.model
            core, count = model.core, 0
            known = {replace(token, id=0) for token in model.parts.added_tokens}
            for token in wanted:
                if not token.content or token in known:
                    continue
                count += 1
                known.add(token)
                core = core.add_tokens(
                    [token.content],
                    special=token.special,
                    lstrip=token.lstrip,
                    rstrip=token.rstrip,
                    single_word=token.single_word,
                    normalized=token.normalized,
                )
            if count:
                self._change(model=Model(core))
        return count

    def num_special_tokens_to_add(self, is_pair: bool) -> int:
        """How many special tokens the template puts around a text, or a pair."""
        return self._settings.model.specials_added(flag("is_pair", is_pair))

    # --- encoding ---

    def encode(
        self,
        sequence: Any,
        pair: Any = None,
        is_pretokenized: bool = False,
        add_special_tokens: bool = True,
    ) -> Encoding:
        """The encoding of a text, or of a pair; with ``is_pretokenized`` of texts that come as lists of words."""
        now = self._settings
        if add_special_tokens is not True or is_pretokenized is not False:
            add_special_tokens = flag("add_special_tokens", add_special_tokens)
            is_pretokenized = flag("is_pretokenized", is_pretokenized)
        if type(sequence) is str and pair is None and not is_pretokenized and now.is_plain:
            encode = now.model.short_encoder(add_special_tokens, now.specials_as_text)
            if encode is not None:
                try:
                    ids = encode(sequence)
                except UnicodeEncodeError as error:
                    raise malformed(error) from None
                return Encoding._of_row(Short(now, sequence, add_special_tokens, ids), 0)
        checked = as_words if is_pretokenized else as_text
        first = checked(sequence)
        seconds = None if pair is None else [checked(pair)]
        made = Encodings(now, [first], seconds, add_special_tokens, is_pretokenized)
        made.pad(made.longest)
        return Encoding._of_row(made, 0)

    def encode_batch(
        self, input: Sequence[Any], is_pretokenized: bool = False, add_special_tokens: bool = True
    ) -> list[Encoding]:
        """The encodings of texts, or pairs of texts, in any mixture."""
        if isinstance(input, str) or not isinstance(input, Sequence | np.ndarray):
            raise TypeError(f"input must be a list of texts or of pairs of texts, not {type(input).__name__}")
        now = self._settings
        options = flag("add_special_tokens", add_special_tokens), flag("is_pretokenized", is_pretokenized)
        if not is_pretokenized and set(map(type, input)) == {str}:
            made = Encodings(now, list(input), None, *options)
            made.pad(made.longest)
            return [Encoding._of_row(made, row) for row in range(len(input))]
        pairs = [pair_of_words(each) if is_pretokenized else pair_of_texts(each) for each in input]
        groups: dict[bool, list[int]] = {}
        for index, (_, second) in enumerate(pairs):
            groups.setdefault(second is not None, []).append(index)
        encoded = {
            are_pairs: Encodings(
                now,
                [pairs[index][0] for index in indices],
                [pairs[index][1] for index in indices] if are_pairs else None,
                *options,
            )
            for are_pairs, indices in groups.items()
        }
        longest = max((each.longest for each in encoded.values()), default=0)
        results: list[Any] = [None] * len(pairs)
        for are_pairs, indices in groups.items():
            encoded[are_pairs].pad(longest)
            for row, index in enumerate(indices):
                results[index] = Encoding._of_row(encoded[are_pairs], row)
        return results

    def encode_batch_fast(
        self, input: Sequence[Any], is_pretokenized: bool = False, add_special_tokens: bool = True
    ) -> list[Encoding]:
        """:meth:`encode_batch`: what is not asked for costs nothing."""
        return self.encode_batch(input, is_pretokenized, add_special_tokens)

    def post_process(
        self, encoding: Encoding, pair: Encoding | None = None, add_special_tokens: bool = True
    ) -> Encoding:
        """Truncate encodings, put them in the template, and pad, as :meth:`encode` does in the end."""
        for each in (encoding,) if pair is None else (encoding, pair):
            if not isinstance(each, Encoding):
                raise TypeError(f"an encoding must be an Encoding, not {type(each).__name__}")
        now, special = self._settings, flag("add_special_tokens", add_special_tokens)
        first, second = encoding._all.copy(), None if pair is None else pair._all.copy()
        now.truncate(first, second, special)
        done = now.model.process(first, second, special)
        if now.padding is not None:
            how = now.padding
            done.pad(how.width(len(done)), how.direction, how.pad_id, how.pad_type_id, how.pad_token)
        return Encoding._of_columns(done)

    async def async_encode(
        self, sequence: Any, pair: Any = None, is_pretokenized: bool = False, add_special_tokens: bool = True
    ) -> Encoding:
        """:meth:`encode` in another thread."""
        return await asyncio.to_thread(self.encode, sequence, pair, is_pretokenized, add_special_tokens)

    async def async_encode_batch(
        self, input: Sequence[Any], is_pretokenized: bool = False, add_special_tokens: bool = True
    ) -> list[Encoding]:
        """:meth:`encode_batch` in another thread."""
        return await asyncio.to_thread(self.encode_batch, input, is_pretokenized, add_special_tokens)

    async def async_encode_batch_fast(
        self, input: Sequence[Any], is_pretokenized: bool = False, add_special_tokens: bool = True
    ) -> list[Encoding]:
        """:meth:`encode_batch_fast` in another thread."""
        return await asyncio.to_thread(self.encode_batch_fast, input, is_pretokenized, add_special_tokens)

    # --- decoding ---

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """The text of ids; those that no token has are passed over."""
        if type(skip_special_tokens) is not bool:
            skip_special_tokens = flag("skip_special_tokens", skip_special_tokens)
        return self._settings.model.decode(ids, skip_special_tokens)

    def decode_batch(self, sequences: Sequence[Sequence[int]], skip_special_tokens: bool = True) -> list[str]:
        """The text of each sequence of ids."""
        if not is_sequence(sequences):
            raise TypeError(f"sequences must be a list of lists of ids, not {type(sequences).__name__}")
        return self._settings.model.decode_batch(sequences, flag("skip_special_tokens", skip_special_tokens))

    async def async_decode_batch(
        self, sequences: Sequence[Sequence[int]], skip_special_tokens: bool = True
    ) -> list[str]:
        """:meth:`decode_batch` in another thread."""
        return await asyncio.to_thread(self.decode_batch, sequences, skip_special_tokens)

    # --- what is not there ---

    def _no_part(self, name: str) -> NoReturn:
        raise NotImplementedError(
            f"Tokenizer.{name}: numbatok compiles a tokenizer as a whole and has no such object; look at "
            f'json.loads(tokenizer.to_str())["{name}"], and to change it, load the changed JSON by from_str'
        )

    @property
    def model(self) -> Any:
        """Not supported: see the JSON of :meth:`to_str`."""
        return self._no_part("model")

    @property
    def normalizer(self) -> Any:
        """Not supported: see the JSON of :meth:`to_str`."""
        return self._no_part("normalizer")

    @property
    def pre_tokenizer(self) -> Any:
        """Not supported: see the JSON of :meth:`to_str`; for its pieces :meth:`numbatok.Tokenizer.pretokenize`."""
        return self._no_part("pre_tokenizer")

    @property
    def post_processor(self) -> Any:
        """Not supported: see the JSON of :meth:`to_str`."""
        return self._no_part("post_processor")

    @property
    def decoder(self) -> Any:
        """Not supported: see the JSON of :meth:`to_str`."""
        return self._no_part("decoder")

    def train(self, files: Any, trainer: Any = None) -> NoReturn:
        """Not supported."""
        raise NotImplementedError(
            "Tokenizer.train: numbatok does not train; train with tokenizers, and pass the result to from_huggingface"
        )

    def train_from_iterator(self, iterator: Any, trainer: Any = None, length: int | None = None) -> NoReturn:
        """Not supported."""
        self.train(iterator, trainer)


def _made(core: Core, padding: Any, truncation: Any, specials_as_text: bool) -> Tokenizer:
    """An unpickled tokenizer."""
    return Tokenizer._of(Settings(Model(core), padding, truncation, specials_as_text))

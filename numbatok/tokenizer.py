"""The tokenizer: checks what it is given, and calls the kernels."""

import codecs
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from numbatok import decoders
from numbatok.added_tokens import AddedToken, AllowedSpecial
from numbatok.batch import TokenBatch
from numbatok.documents import types_of
from numbatok.errors import DisallowedToken, UnknownId, VocabularyError
from numbatok.ids import Ids, Offsets, as_flat_ids, as_ids, unknown_id
from numbatok.locks import building, interrupts_held_back
from numbatok.memory import without_collection
from numbatok.parts import Parts
from numbatok.patterns.known import canonical, walk_of
from numbatok.patterns.rules import PatternEngine
from numbatok.text import (
    Errors,
    OffsetUnit,
    Text,
    byte_before_replacing,
    character_at_byte,
    check_errors,
    check_unit,
)

if TYPE_CHECKING:
    from numbatok.engine import Encoded, Engine
    from numbatok.patterns.fallback import RegexRule
    from numbatok.stream_decoders import BatchStreamDecoder, StreamDecoder, Strings, Tables
    from numbatok.streams import StreamEncoder

# The defaults of encoding calls: told by identity, which costs a short call less than comparing.
_ALL: Literal["all"] = "all"
_NONE: tuple[str, ...] = ()
_STRICT: Errors = "strict"


class Tokenizer:
    """A byte-level BPE tokenizer.

    Made by :func:`numbatok.get_encoding`, :meth:`from_file` and the other methods that begin with ``from``. It never
    changes, so any number of threads may use one at once: each call works in a scratch of its own, with its own cache,
    which lives on for later calls. Kernels run without the GIL. Equality, hash, pickles and copies go by content;
    caches are left behind.
    """

    def __init__(self, parts: Parts) -> None:
        if not isinstance(parts, Parts):
            raise TypeError(
                f"Tokenizer takes the parts that a loader makes, not {type(parts).__name__}; "
                "numbatok.get_encoding(name), Tokenizer.from_file(path) and Tokenizer.from_str(content) load one"
            )
        self._regex_rule = _regex_rule(parts)
        self._parts = parts
        self._vocabulary = parts.vocabulary
        self._added = parts.added_tokens
        self._engine: Engine | None = None
        self._strings_of: dict[bool, Strings] = {}  # for stream decoders, by whether special tokens are skipped
        self._stream_tables: dict[bool, Tables | None] = {}

    # --- loading and identity ---

    @classmethod
    def from_file(
        cls,
        path: str | PathLike[str],
        *,
        pattern: str | None = None,
        special_tokens: Mapping[str, int] | None = None,
        pattern_engine: PatternEngine = "automaton",
    ) -> "Tokenizer":
        """Load a tokenizer from a file or a directory. What it is, its content tells.

        Parameters
        ----------
        path : a ``tokenizer.json``; a rank file (``.tiktoken``, Llama 3's ``tokenizer.model``); a Tekken JSON; or a
            directory with one of them, or with ``vocab.json`` and ``merges.txt``. A ``tokenizer.json`` is preferred.
        pattern : the regular expression that cuts the text, for a rank file, which has none
        special_tokens : the special tokens and their ids, for a rank file or ``vocab.json``
        pattern_engine : ``"regex"`` lets the package ``regex`` run a pattern that no automaton can, such as one with
            back-references, with a RuntimeWarning: it is slow, and its time has no bound

        Raises OSError where the file can't be read, and VocabularyError that names what is damaged or not supported.
        """
        from numbatok.loading.files import load

        parts = load(path, pattern=pattern, special_tokens=special_tokens)
        return cls(replace(parts, pattern_engine=pattern_engine))

    @classmethod
    def from_str(cls, content: str, *, pattern_engine: PatternEngine = "automaton") -> "Tokenizer":
        """Load the content of a ``tokenizer.json``; ``pattern_engine`` and errors are those of :meth:`from_file`."""
        from numbatok.loading.tokenizer_json import parse

        if not isinstance(content, str):
            raise TypeError(f"content must be the str of a tokenizer.json, not {type(content).__name__}")
        return cls(replace(parse(content), pattern_engine=pattern_engine))

    @classmethod
    def from_pretrained(
        cls,
        name: str | PathLike[str],
        *,
        revision: str | None = None,
        token: str | bool | None = None,
        local_files_only: bool = False,
        pattern_engine: PatternEngine = "automaton",
    ) -> "Tokenizer":
        """Load the tokenizer of a model on the Hugging Face Hub, by way of its cache; or of a local directory.

        Only the tokenizer's files are downloaded. ``revision`` is a branch, tag or commit; ``token`` opens private
        repositories; with ``local_files_only``, or ``HF_HUB_OFFLINE=1``, only the cache is looked at. Raises
        ImportError where ``huggingface_hub`` is needed and not installed (``pip install numbatok[hub]``), its own
        errors for a repository that can't be reached, and VocabularyError as :meth:`from_file` does.
        """
        from numbatok.loading.hub import load

        parts = load(name, revision=revision, token=token, local_files_only=local_files_only)
        return cls(replace(parts, pattern_engine=pattern_engine))

    @classmethod
    def from_huggingface(cls, tokenizer: Any, *, pattern_engine: PatternEngine = "automaton") -> "Tokenizer":
        """Take over a ``tokenizers.Tokenizer``, or the one inside a fast tokenizer of ``transformers``."""
        from numbatok.loading.peers import from_huggingface

        return cls(replace(from_huggingface(tokenizer), pattern_engine=pattern_engine))

    @classmethod
    def from_tiktoken(
        cls,
        encoding: Any,
        *,
        pattern: str | None = None,
        special_tokens: Mapping[str, int] | None = None,
        name: str = "",
        pattern_engine: PatternEngine = "automaton",
    ) -> "Tokenizer":
        """Take over a ``tiktoken.Encoding``, or a mapping of tokens to ranks, which needs a ``pattern`` besides.

        >>> Tokenizer.from_tiktoken(ranks, pattern=r"\\p{L}+|\\P{L}", special_tokens={"<end>": 50000})
        """
        from numbatok.loading.peers import from_tiktoken

        parts = from_tiktoken(encoding, pattern=pattern, special_tokens=special_tokens, name=name)
        return cls(replace(parts, pattern_engine=pattern_engine))

    def save(self, path: str | PathLike[str]) -> None:
        """Write a ``tokenizer.json`` that ``tokenizers`` loads, and that gives the same ids there.

        The file appears whole or not at all. Raises OSError where it can't be written, and ValueError for what the
        format can't hold.
        """
        from numbatok.loading.saving import save

        save(self._parts, path)

    @property
    def name(self) -> str:
        """What the tokenizer was loaded as: an encoding's name, a file's path, or nothing."""
        return self._parts.name

    def __repr__(self) -> str:
        name = f"{self.name!r}, " if self.name else ""
        return f"<numbatok.Tokenizer {name}{self.vocab_size} tokens, {len(self.special_tokens)} special>"

    def _content(self) -> Parts:
        """The parts, with the split rule in the spelling that stands for all that cut alike."""
        if self._regex_rule is not None:
            return self._parts
        return replace(self._parts, rule=canonical(self._parts.rule), pattern_engine="automaton")

    def __eq__(self, other: object) -> bool:
        return self._content() == other._content() if isinstance(other, Tokenizer) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._content())

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_engine": None, "_strings_of": {}, "_stream_tables": {}}

    # --- vocabulary ---

    @property
    def vocab_size(self) -> int:
        """One more than the largest id: the rows that an embedding table needs."""
        others = [*self._added.content_of, *(number for number, _ in self._parts.unreachable)]
        return max([int(self._vocabulary.ids.max()), *others]) + 1

    @property
    def special_tokens(self) -> dict[str, int]:
        """The special tokens with their ids, in order of the ids."""
        return dict(self._added.specials)

    @property
    def added_tokens(self) -> tuple[AddedToken, ...]:
        """The added tokens, special or not, in order of their ids."""
        return tuple(self._added)

    def token_to_id(self, token: str | bytes) -> int | None:
        """The id of a token given by its text or bytes, or None where there is none.

        >>> numbatok.get_encoding("gpt2").token_to_id(" world")
        995
        """
        if isinstance(token, str):
            token = token.encode("utf-8", "surrogatepass")
        elif not isinstance(token, bytes):
            raise TypeError(f"token must be str or bytes, not {type(token).__name__}")
        added = self._added.id_of.get(token)
        return self._vocabulary.id_of.get(token) if added is None else added

    def id_to_token(self, id: int) -> bytes | None:
        """The bytes of a token, or None where no token has the id.

        >>> numbatok.get_encoding("gpt2").id_to_token(995)
        b' world'
        """
        if isinstance(id, bool | np.bool_ | np.timedelta64) or not isinstance(id, int | np.integer):
            raise TypeError(f"id must be an integer, not {type(id).__name__}")
        return self._parts.token(int(id))

    def add_tokens(
        self,
        contents: Iterable[str],
        *,
        special: bool = False,
        lstrip: bool = False,
        rstrip: bool = False,
        single_word: bool = False,
        normalized: bool | None = None,
    ) -> "Tokenizer":
        """A new tokenizer with more added tokens; this one stays as it is, also while other threads use it.

        A string that is a token already, added or spelled so in a ``tokenizer.json``, keeps its id; others get the ids
        after the largest, in order. The empty string is passed over. The flags are those of :class:`AddedToken`;
        ``normalized`` is by default what ``special`` is not. For other flags each, call it several times.

        >>> tokenizer = numbatok.get_encoding("gpt2").add_tokens(["<|im_start|>", "<|im_end|>"], special=True)
        >>> tokenizer.encode("<|im_start|>Hello")
        array([50257, 15496], dtype=uint32)
        """
        if isinstance(contents, str):
            raise TypeError(f"contents must be an iterable of str, not one str ({contents!r}); pass [{contents!r}]")
        added = {token.content: token.id for token in self._added}
        following = max([self._parts.model_size(), *(number + 1 for number in added.values())])
        tokens = []
        for content in contents:
            if not isinstance(content, str):
                raise TypeError(f"an added token must be a str, not {type(content).__name__}")
            if not content:
                continue
            number = added.get(content, self._parts.id_of_string(content))
            if number is None:
                number, following = following, following + 1
            added[content] = number
            flags = {"lstrip": lstrip, "rstrip": rstrip, "single_word": single_word}
            keep = not special if normalized is None else normalized
            tokens.append(AddedToken(content, number, special, **flags, normalized=keep))
        return Tokenizer(replace(self._parts, added_tokens=self._added.extended(tokens), name=""))

    def add_special_tokens(self, contents: Iterable[str], **flags: bool) -> "Tokenizer":
        """:meth:`add_tokens` of special ones."""
        return self.add_tokens(contents, special=True, **flags)

    def with_dropout(self, probability: float, seed: int | None = None) -> "Tokenizer":
        """A new tokenizer that puts off each merge that is due with a probability, as BPE-dropout does.

        Its ids are random, and always those of the text. Calls one after the other in one thread give the same ids for
        the same ``seed``. Nothing is cached, so it is slower. (Provilkov, Emelianenko and Voita, "BPE-Dropout: Simple
        and Effective Subword Regularization", 2020.)
        """
        options = replace(self._vocabulary.options, dropout=float(probability))
        tokenizer = Tokenizer(replace(self._parts, vocabulary=replace(self._vocabulary, options=options)))
        if seed is not None:
            tokenizer._start().seed(seed)
        return tokenizer

    # --- encoding ---

    def encode(
        self,
        text: Text,
        pair: Text | None = None,
        *,
        add_special_tokens: bool = True,
        allowed_special: AllowedSpecial = _ALL,
        disallowed_special: AllowedSpecial = _NONE,
        errors: Errors = _STRICT,
    ) -> Ids:
        """The ids of one text, or of a pair of texts that the tokenizer's template joins.

        Parameters
        ----------
        text : ``str``, or ``bytes``, ``bytearray``, ``memoryview`` or a 1-D uint8 array that holds UTF-8. It is read
            in place. Lone surrogates in a ``str`` become U+FFFD, as in tiktoken.
        pair : a second text, or None
        add_special_tokens : whether to add the ids that the tokenizer's template puts around a text; GPT-2 has none
        allowed_special : the special tokens that become their ids where they stand in the text: ``"all"``, or a
            collection of them. The others are encoded as ordinary text.
        disallowed_special : special tokens that may not stand in the text: ``"all"`` for all that are not allowed, or
            a collection
        errors : what to do where bytes are not UTF-8: ``"strict"`` raises, ``"replace"`` takes U+FFFD

        Returns
        -------
        uint32, one-dimensional, a new array

        Raises
        ------
        TypeError : ``text`` is of another type
        UnicodeDecodeError : bytes are not UTF-8 (with the byte offset)
        ValueError : a disallowed token is in the text, or an argument names no special token

        >>> numbatok.get_encoding("gpt2").encode("Hello world<|endoftext|>")
        array([15496,   995, 50256], dtype=uint32)
        """
        engine = self._engine or self._start()
        actions = engine.everything_allowed
        if allowed_special is not _ALL or disallowed_special is not _NONE or errors is not _STRICT:
            actions = self._actions(engine, allowed_special, disallowed_special, errors)
        try:
            if pair is None:
                return engine.encode(text, actions, errors, bool(add_special_tokens))
            return engine.encode_batch([text], [pair], actions, errors, bool(add_special_tokens)).ids
        except DisallowedToken as found:
            raise self._disallowed(found, [text], None if pair is None else [pair], "") from None

    def encode_with_offsets(
        self,
        text: Text,
        pair: Text | None = None,
        *,
        unit: OffsetUnit = "char",
        add_special_tokens: bool = True,
        allowed_special: AllowedSpecial = _ALL,
        disallowed_special: AllowedSpecial = _NONE,
        errors: Errors = _STRICT,
    ) -> tuple[Ids, Offsets]:
        """The ids of a text, or pair of texts, and where each stands in the text.

        The offsets are int64, one row ``(begin, end)`` an id, with the meaning that ``tokenizers`` gives them: they
        refer to the text before normalizing, in characters, or with ``unit="byte"`` in bytes of its UTF-8. An id
        covers whole characters in either unit: ids that share one all have its span, so that spans can overlap. Those
        of a pair's second text refer to that; a template's ids have (0, 0). Where the file says ``trim_offsets``,
        blanks at the ends of tokens are left out. The other arguments and errors are those of :meth:`encode`; in bytes
        with ``errors="replace"``, the places are those in the bytes given.

        >>> numbatok.get_encoding("gpt2").encode_with_offsets("naïve ☃")
        (array([ 2616, 38776, 34719,   225]), array([[0, 2], [2, 5], [5, 7], [6, 7]]))
        """
        check_unit(unit, "unit")
        if pair is None and allowed_special is _ALL and disallowed_special is _NONE and errors is _STRICT:
            engine = self._engine or self._start()
            short = engine.locator.encode_short(text, engine.everything_allowed, bool(add_special_tokens), unit)
            if short is not None:
                return short
        seconds = None if pair is None else [pair]
        special = bool(add_special_tokens), allowed_special, disallowed_special
        try:
            encoded, places = self._encode_all([text], seconds, unit, special, errors)
        except DisallowedToken as found:
            raise self._disallowed(found, [text], seconds, "") from None
        assert places is not None
        return encoded.ids, places

    def encode_batch(
        self,
        texts: Iterable[Text],
        pairs: Iterable[Text] | None = None,
        *,
        return_offsets: OffsetUnit | None = None,
        add_special_tokens: bool = True,
        allowed_special: AllowedSpecial = _ALL,
        disallowed_special: AllowedSpecial = _NONE,
        errors: Errors = _STRICT,
    ) -> TokenBatch:
        """The ids of many texts, flat.

        ``texts`` is any iterable of texts as :meth:`encode` takes them; those of a list or tuple of ``str`` are read
        in place. ``pairs`` are the second texts, one for each. With ``return_offsets`` the batch has
        :attr:`TokenBatch.token_offsets`, those of :meth:`encode_with_offsets` in this unit. The other arguments, and
        the exceptions, are those of :meth:`encode`; an exception names the index of the text that it is about, and
        nothing is returned of others.

        >>> batch = numbatok.get_encoding("gpt2").encode_batch(["Hello world", "again"])
        >>> batch.ids, batch.offsets
        (array([15496,   995, 17776], dtype=uint32), array([0, 2, 3]))
        """
        documents = _as_documents(texts)
        seconds = None if pairs is None else _as_documents(pairs)
        if seconds is not None and len(seconds) != len(documents):
            raise ValueError(f"{len(documents)} texts are given with {len(seconds)} pairs; each text needs one")
        if return_offsets is not None:
            check_unit(return_offsets, "return_offsets")
        special = bool(add_special_tokens), allowed_special, disallowed_special
        try:
            encoded, places = self._encode_all(documents, seconds, return_offsets, special, errors)
        except DisallowedToken as found:
            raise self._disallowed(found, documents, seconds, f" at index {found.document} of the batch") from None
        types = types_of(encoded.frame, encoded.documents, encoded.ends) if encoded.frame.types.any() else None
        return TokenBatch(encoded.ids, encoded.offsets, types, places)

    def count(
        self,
        text: Text,
        *,
        add_special_tokens: bool = True,
        allowed_special: AllowedSpecial = _ALL,
        disallowed_special: AllowedSpecial = _NONE,
        errors: Errors = _STRICT,
    ) -> int:
        """How many ids :meth:`encode` gives, without keeping them."""
        engine = self._engine or self._start()
        actions = self._actions(engine, allowed_special, disallowed_special, errors)
        try:
            return int(engine.count_batch([text], actions, errors, bool(add_special_tokens))[0])
        except DisallowedToken as found:
            raise self._disallowed(found, [text], None, "") from None

    def count_batch(
        self,
        texts: Iterable[Text],
        *,
        add_special_tokens: bool = True,
        allowed_special: AllowedSpecial = _ALL,
        disallowed_special: AllowedSpecial = _NONE,
        errors: Errors = _STRICT,
    ) -> npt.NDArray[np.int64]:
        """How many ids :meth:`encode_batch` gives for each text: int64, one number a text."""
        documents = _as_documents(texts)
        engine = self._engine or self._start()
        actions = self._actions(engine, allowed_special, disallowed_special, errors)
        try:
            return engine.count_batch(documents, actions, errors, bool(add_special_tokens))
        except DisallowedToken as found:
            raise self._disallowed(found, documents, None, f" at index {found.document} of the batch") from None

    def pretokenize(self, text: Text, *, errors: Errors = "strict") -> npt.NDArray[np.int64]:
        """Where the split rule cuts a text: byte offsets into its UTF-8, from 0 to its length.

        Pretoken ``i`` is ``text[boundaries[i]:boundaries[i + 1]]``. Added tokens are not looked for; an empty text has
        the one boundary 0.

        >>> numbatok.get_encoding("gpt2").pretokenize("Hello world!")
        array([ 0,  5, 11, 12])
        """
        check_errors(errors)
        return (self._engine or self._start()).pretokenize(text, errors)

    # --- decoding ---

    def decode_bytes(self, ids: object, *, skip_special_tokens: bool = False) -> bytes:
        """The bytes of a sequence of ids.

        ``ids`` is a one-dimensional array of any integer type, or a sequence of ints. Raises TypeError for anything
        else, and ValueError for an id that is not in the vocabulary, naming it and its position.
        """
        if self._parts.decoder:
            return self.decode(ids, skip_special_tokens=skip_special_tokens).encode()
        return self._decode_one(ids, skip_special_tokens).tobytes()

    def decode(self, ids: object, *, errors: str = "replace", skip_special_tokens: bool = False) -> str:
        """The text of a sequence of ids: that of :meth:`decode_bytes`, decoded as UTF-8.

        ``errors`` is what ``bytes.decode`` takes (LookupError for another); ids can end in the middle of a character.

        >>> numbatok.get_encoding("gpt2").decode([15496, 995])
        'Hello world'
        """
        codecs.lookup_error(errors)  # bytes.decode looks it up only where bytes are not UTF-8
        if self._parts.decoder:
            array = as_ids(ids, self.vocab_size)
            return self._decode_strings(array, np.array([0, len(array)]), skip_special_tokens, batch=False)[0]
        return str(self._decode_one(ids, skip_special_tokens).data, "utf-8", errors)

    def decode_batch(
        self, batch: "TokenBatch | Iterable[object]", *, errors: str = "replace", skip_special_tokens: bool = False
    ) -> list[str]:
        """The text of each document of a :class:`TokenBatch`, or of an iterable of sequences of ids."""
        codecs.lookup_error(errors)
        ids, offsets = as_flat_ids(batch, self.vocab_size)
        if self._parts.decoder:
            return self._decode_strings(ids, offsets, skip_special_tokens, batch=True)
        data, ends = self._decode(ids, offsets, skip_special_tokens, batch=True)
        text = data.tobytes()
        edges = [0, *ends.tolist()]
        return [text[begin:end].decode("utf-8", errors) for begin, end in pairwise(edges)]

    # --- streams ---

    def stream_encoder(
        self,
        *,
        add_special_tokens: bool = True,
        allowed_special: AllowedSpecial = _ALL,
        disallowed_special: AllowedSpecial = _NONE,
        errors: Errors = _STRICT,
    ) -> "StreamEncoder":
        """An encoder of a text that comes in parts; the arguments are those of :meth:`encode`.

        Raises ValueError where the tokenizer's template holds the text more than once.

        >>> stream = numbatok.get_encoding("gpt2").stream_encoder()
        >>> [stream.feed("Hello wor").tolist(), stream.feed("ld").tolist(), stream.finish().tolist()]
        [[], [], [15496, 995]]
        """
        from numbatok.streams import StreamEncoder

        engine = self._engine or self._start()
        actions = self._actions(engine, allowed_special, disallowed_special, errors)
        ends = engine.stream_ends(bool(add_special_tokens))
        if ends is None:
            raise ValueError("the template is more than a text with ids before and after it, which no stream can give")
        return StreamEncoder(engine, self._parts, actions, ends, errors)

    def stream_decoder(self, *, skip_special_tokens: bool = False) -> "StreamDecoder":
        """A decoder of ids that come one by one: text as soon as it is final, joined that of :meth:`decode`.

        >>> stream = numbatok.get_encoding("gpt2").stream_decoder()
        >>> [stream.feed(34719), stream.feed(225), stream.feed(995), stream.finish()]
        [' ', '☃', ' world', '']
        """
        from numbatok.stream_decoders import StreamDecoder

        return StreamDecoder(self._strings(bool(skip_special_tokens)))

    def batch_stream_decoder(self, count: int, *, skip_special_tokens: bool = False) -> "BatchStreamDecoder":
        """A decoder of ``count`` streams of ids that go on in step, as in serving; see its class.

        >>> streams = numbatok.get_encoding("gpt2").batch_stream_decoder(2)
        >>> streams.feed([15496, 34719])
        (array([ 72, 101, 108, 108, 111,  32], dtype=uint8), array([0, 5, 6]))
        """
        from numbatok.stream_decoders import BatchStreamDecoder, tables_of

        if isinstance(count, bool) or not isinstance(count, int | np.integer):
            raise TypeError(f"count must be an integer, not {type(count).__name__}")
        if count < 0:
            raise ValueError(f"count must be at least 0, not {count}")
        skip = bool(skip_special_tokens)
        strings = self._strings(skip)
        if skip not in self._stream_tables:
            self._stream_tables[skip] = tables_of((self._engine or self._start()).decoder, skip, strings)
        return BatchStreamDecoder(int(count), strings, self._stream_tables[skip])

    # --- inside ---

    def _strings(self, skip_special_tokens: bool) -> "Strings":
        """The string of each id, for stream decoders, which share them."""
        from numbatok.stream_decoders import Strings

        if skip_special_tokens not in self._strings_of:
            skipped = frozenset(self._added.specials.values() if skip_special_tokens else ())
            self._strings_of[skip_special_tokens] = Strings(
                self._parts.token, skipped, self.vocab_size, self._parts.decoder
            )
        return self._strings_of[skip_special_tokens]

    def _start(self) -> "Engine":
        """The compiled side, built by the first caller while others wait."""
        with building:
            if self._engine is None:
                self._engine = without_collection(self._build)
            return self._engine

    def _build(self) -> "Engine":
        with interrupts_held_back():
            from numbatok.engine import Engine
            from numbatok.kernels.jit import load_compiler

            load_compiler()
        return Engine(self._parts, self._regex_rule)

    def _encode_all(
        self,
        texts: list[Text],
        seconds: list[Text] | None,
        unit: OffsetUnit | None,
        special: tuple[bool, AllowedSpecial, AllowedSpecial],
        errors: Errors,
    ) -> "tuple[Encoded, Offsets | None]":
        """Texts, or pairs, encoded, and the offsets of their ids where a unit is given."""
        engine = self._engine or self._start()
        adds, allowed, disallowed = special
        actions = self._actions(engine, allowed, disallowed, errors)
        encoded = engine.encode_batch(texts, seconds, actions, errors, adds)
        return encoded, None if unit is None else engine.locator.locate(encoded, texts, seconds, unit, actions)

    def _actions(
        self, engine: "Engine", allowed: AllowedSpecial, disallowed: AllowedSpecial, errors: str
    ) -> npt.NDArray[np.uint8]:
        """The arguments of a call checked, and what they mean for each added token."""
        check_errors(errors)
        if allowed == "all" and isinstance(disallowed, tuple) and not disallowed:
            return engine.everything_allowed
        return engine.actions(self._added.policy(allowed, disallowed))

    def _disallowed(
        self, found: DisallowedToken, texts: list[Any], seconds: list[Any] | None, where: str
    ) -> ValueError:
        """The error for a disallowed token: which, where, and what to do."""
        token = self._added[found.token].content
        text = texts[found.document]
        if found.second and seconds is not None:
            text = seconds[found.document]
            where = f" of the pair's second text{where}"
        elif where:
            where = f" of the text{where}"
        if isinstance(text, str):
            place = f"character {character_at_byte(text, found.position)}"
        else:
            place = f"byte {byte_before_replacing(bytes(text), found.position)}"
        return ValueError(
            f"the text has the disallowed special token {token!r} at {place}{where}. To encode it as its id, pass "
            f"allowed_special={{{token!r}}} and leave it out of disallowed_special; to encode it as ordinary text, "
            "pass allowed_special=() and disallowed_special=()"
        )

    def _decode_one(self, ids: object, skip_special_tokens: bool) -> npt.NDArray[np.uint8]:
        """The bytes of one document's ids."""
        array = as_ids(ids, self.vocab_size)
        return self._decode(array, np.array([0, len(array)]), skip_special_tokens, batch=False)[0]

    def _decode_strings(self, ids: Ids, offsets: Offsets, skip_special_tokens: bool, *, batch: bool) -> list[str]:
        """The texts that the decoder makes of the strings of each document's tokens."""
        skipped = set(self._added.specials.values()) if skip_special_tokens else set()
        numbers = ids.tolist()
        texts = []
        for begin, end in pairwise(offsets.tolist()):
            strings = []
            for place in range(begin, end):
                token = self._parts.token(numbers[place])
                if token is None:
                    raise unknown_id(ids, place, offsets, self.vocab_size, batch)
                if numbers[place] not in skipped:
                    strings.append(token.decode("utf-8", "replace"))
            texts.append(decoders.decode(strings, self._parts.decoder))
        return texts

    def _decode(
        self, ids: Ids, offsets: Offsets, skip_special_tokens: bool, *, batch: bool
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        engine = self._engine or self._start()
        try:
            return engine.decoder.decode(ids, offsets, bool(skip_special_tokens))
        except UnknownId as found:
            raise unknown_id(ids, found.place, offsets, self.vocab_size, batch) from None


def _regex_rule(parts: Parts) -> "RegexRule | None":
    """What runs the split rule if no automaton can and the caller allows it; VocabularyError names what is wrong."""
    if parts.pattern_engine not in ("automaton", "regex"):
        raise ValueError(f'pattern_engine must be "automaton" or "regex", not {parts.pattern_engine!r}')
    try:
        walk_of(parts.rule)
    except VocabularyError as error:
        if parts.pattern_engine == "automaton":
            raise VocabularyError(f'{error} (pattern_engine="regex" may run it, slowly)') from None
        from numbatok.patterns.fallback import compile_with_regex

        rule = compile_with_regex(parts.rule)
        warnings.warn(f"the package regex runs a split rule, slowly: {error}", RuntimeWarning, stacklevel=4)
        return rule
    return None


def _as_documents(texts: Iterable[Text]) -> list[Text]:
    """A list of our own, so that the texts stay alive and in place whatever others do to the caller's."""
    if isinstance(texts, str | bytes | bytearray | memoryview):
        raise TypeError(f"texts must be an iterable of texts, not one {type(texts).__name__}; encode takes one text")
    if isinstance(texts, np.ndarray) and texts.dtype == np.uint8 and texts.ndim == 1:
        raise TypeError("texts must be an iterable of texts, not one uint8 array; encode takes one text")
    try:
        return list(texts)
    except TypeError:
        raise TypeError(f"texts must be an iterable of texts, not {type(texts).__name__}") from None

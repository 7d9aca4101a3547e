"""The tokenizer: checks what it is given, and calls the kernels."""

import codecs
import threading
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import numpy.typing as npt

from numbatok import decoders
from numbatok.added_tokens import AddedToken, AllowedSpecial
from numbatok.batch import TokenBatch
from numbatok.caches import CacheBudget, CacheInfo, check_budget
from numbatok.calls import AnyIds, Call, id_type_of
from numbatok.columns import Texts, column_of, index_given, refuse_nulls, spread, without_nulls
from numbatok.displays import LIMIT
from numbatok.documents import types_of
from numbatok.errors import DisallowedToken, UnknownId, VocabularyError
from numbatok.ids import Ids, Offsets, as_flat_ids, as_ids, check_range, unknown_id
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
from numbatok.threads import check_threads

if TYPE_CHECKING:
    from numbatok.batch_streams import BatchStreamDecoder, Tables
    from numbatok.budgets import At, Chunk, Overhead
    from numbatok.displays.texts import Display
    from numbatok.engine import Engine
    from numbatok.explain import Explanation
    from numbatok.patterns.fallback import RegexRule
    from numbatok.prefix_cache import PrefixCache
    from numbatok.segments import Kind
    from numbatok.stream_decoders import StreamDecoder, Strings
    from numbatok.streams import StreamEncoder
    from numbatok.tables import VocabularyTable
    from numbatok.windows import Strategy, Windows

# The defaults of encoding calls: told by identity, which costs a short call less than comparing.
_ALL: Literal["all"] = "all"
_NONE: tuple[str, ...] = ()
_STRICT: Errors = "strict"
_MOST_LISTED = 256  # ids of an array that are decoded as a list: 0.7 us for 20, by way of the tables 6


class Tokenizer:
    """A BPE tokenizer, of bytes or of characters.

    Made by :func:`numbatok.get_encoding`, :meth:`from_file` and the other methods that begin with ``from``. It never
    changes, so any number of threads may use one at once: each call works in a scratch of its own, with its own cache,
    which lives on for later calls. Kernels run without the GIL. Equality, hash, pickles and copies go by content;
    caches are left behind.

    >>> numbatok.get_encoding("gpt2")
    <numbatok.Tokenizer 'gpt2', 50257 tokens, 1 special>
    """

    def __init__(self, parts: Parts) -> None:
        if not isinstance(parts, Parts):
            raise TypeError(
                f"Tokenizer takes the parts that a loader makes, not {type(parts).__name__}; "
                "numbatok.get_encoding(name), Tokenizer.from_file(path) and Tokenizer.from_str(content) load one"
            )
        parts.check_added_tokens()
        self._regex_rule = _regex_rule(parts)
        self._parts = parts
        self._vocabulary = parts.vocabulary
        self._added = parts.added_tokens
        others = [*self._added.content_of, *(number for number, _ in parts.unreachable)]
        self._vocab_size = max([int(self._vocabulary.ids.max()), *others]) + 1
        self._cache_budget: int | None = None
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

        >>> Tokenizer.from_file("tokenizer.json").encode("Hello world")
        array([15496,   995], dtype=uint32)
        """
        from numbatok.loading.files import load

        parts = load(path, pattern=pattern, special_tokens=special_tokens)
        return cls(replace(parts, pattern_engine=pattern_engine))

    @classmethod
    def from_str(cls, content: str, *, pattern_engine: PatternEngine = "automaton") -> "Tokenizer":
        """Load the content of a ``tokenizer.json``; ``pattern_engine`` and errors are those of :meth:`from_file`.

        >>> Tokenizer.from_str(Path("tokenizer.json").read_text(encoding="utf-8")).vocab_size
        50257
        """
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

        >>> Tokenizer.from_pretrained("Qwen/Qwen3-8B")
        """
        from numbatok.loading.hub import load

        parts = load(name, revision=revision, token=token, local_files_only=local_files_only)
        return cls(replace(parts, pattern_engine=pattern_engine))

    @classmethod
    def from_huggingface(cls, tokenizer: Any, *, pattern_engine: PatternEngine = "automaton") -> "Tokenizer":
        """Take over a ``tokenizers.Tokenizer``, or the one inside a fast tokenizer of ``transformers``.

        >>> Tokenizer.from_huggingface(tokenizers.Tokenizer.from_file("tokenizer.json")).encode("Hello world")
        array([15496,   995], dtype=uint32)
        """
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

        >>> numbatok.get_encoding("gpt2").save("tokenizer.json")
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

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from numbatok.displays.summaries import tokenizer_html

        return tokenizer_html(self._parts, self.vocab_size)

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
        return self._vocab_size

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

    def vocabulary(self) -> "VocabularyTable":
        """All tokens as columns, in order of their ids: ids, bytes, text, rank, kind.

        >>> table = numbatok.get_encoding("gpt2").vocabulary()
        >>> table
        <numbatok.VocabularyTable 50257 tokens: 256 unit, 50000 merged, 1 special>
        >>> [row.text for row in table if row.bytes.endswith(b"izer")]
        ['izer', ' organizer', ' fertilizer']
        """
        from numbatok.tables import vocabulary_table

        return vocabulary_table(self._parts)

    def merges(self) -> list[tuple[bytes, bytes]]:
        """The merges in order of rank: the bytes of the two tokens that become one.

        A rank file has no list of merges; of it each way to cut a token into two tokens is one, as :meth:`save` writes
        them.

        >>> numbatok.get_encoding("gpt2").merges()[:2]
        [(b' ', b't'), (b' ', b'a')]
        """
        from numbatok.tables import merges

        return merges(self._parts)

    def explain(
        self,
        text: Text,
        *,
        allowed_special: AllowedSpecial = _ALL,
        disallowed_special: AllowedSpecial = _NONE,
        errors: Errors = _STRICT,
    ) -> "Explanation":
        """The pieces of a text, each with the merges that made its ids, in order; a notebook shows them.

        The arguments and exceptions are those of :meth:`encode`. The template's special tokens are left out. ValueError
        for a tokenizer with dropout, whose merges are others each time.

        >>> numbatok.get_encoding("gpt2").explain("the end")
        "the" -> 1169
            [t] [h] [e]
            [t] [he]    rank 258: [h] [e]
            [the]    rank 1169: [t] [he]
        " end" -> 886
            [ ] [e] [n] [d]
            [ ] [en] [d]    rank 268: [e] [n]
            [ ] [end]    rank 437: [en] [d]
            [ end]    rank 886: [ ] [end]
        """
        from numbatok.explain import explain

        engine = self._engine or self._start()
        actions = self._actions(engine, allowed_special, disallowed_special, errors)
        try:
            return explain(engine, self._parts, text, actions, errors)
        except DisallowedToken as found:
            raise self._disallowed(found, [text], None, "") from None

    def show(
        self,
        text: Text | TokenBatch | Sequence[int] | AnyIds,
        *,
        limit: int | None = LIMIT,
        allowed_special: AllowedSpecial = _ALL,
        disallowed_special: AllowedSpecial = _NONE,
        errors: Errors = _STRICT,
    ) -> "Display":
        """The tokens of a text, to look at: a notebook draws them, ``print`` writes them, coloured on a terminal.

        Parameters
        ----------
        text : as :meth:`encode` takes it. The template's special tokens are left out. Or ids to be shown as tokens: a
            batch, a list, an array other than of uint8
        limit : tokens to show, a batch's documents together; None for all. Of a text of over a million bytes only a
            beginning that has so many tokens is encoded, so that what is wrong behind it raises nothing
        allowed_special, disallowed_special, errors : as in :meth:`encode`, for texts

        Returns
        -------
        An object with ``_repr_html_``, ``str``, and ``to_text(color=..., width=...)``; that of a text has ``tokens``, a
        list of tuples that begin with (pretoken, begin, end, id, content). Whatever a terminal or browser might obey is
        an escape.

        The exceptions are those of :meth:`encode`, and for ids those of :meth:`decode`, but that an id in a gap below
        :attr:`vocab_size`, which no token has, is shown as such.

        >>> print(numbatok.get_encoding("gpt2").show("Hello tokenizer"))
        pretoken  bytes     id  token
               0  0-5    15496  "Hello"
               1  5-11   11241  " token"
               1  11-15   7509  "izer"
        """
        from numbatok.displays.shown import documents_of_batch, tokens_of_text
        from numbatok.displays.texts import BatchDisplay, TextDisplay
        from numbatok.rows import checked_number

        limit = None if limit is None else checked_number("limit", limit, 0)
        if isinstance(text, list | tuple) or (isinstance(text, np.ndarray) and text.dtype != np.uint8):
            ids = as_ids(text, self.vocab_size)
            text = TokenBatch(ids, np.array([0, len(ids)], np.int64))
            check_range(text, self.vocab_size, named=False)
        elif isinstance(text, TokenBatch):
            check_range(text, self.vocab_size, named=True)
        if isinstance(text, TokenBatch):
            return BatchDisplay(documents_of_batch(text, self._parts.token, limit))
        engine = self._engine or self._start()
        actions = self._actions(engine, allowed_special, disallowed_special, errors)
        try:
            return TextDisplay(tokens_of_text(engine, self._parts, cast(Text, text), actions, errors, limit))
        except DisallowedToken as found:
            raise self._disallowed(found, [text], None, "") from None

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
        if not isinstance(contents, Iterable):
            raise TypeError(f"contents must be an iterable of str, not {type(contents).__name__}")
        if isinstance(contents, Mapping):
            raise TypeError(
                f"contents must be an iterable of str, not {type(contents).__name__}: new tokens get the ids after the "
                "largest. Tokenizer.from_file and from_tiktoken take special_tokens= with ids of your own"
            )
        added = {token.content: token.id for token in self._added}
        following = max([self._parts.model_size(), *(number + 1 for number in added.values())])
        flags = {"lstrip": bool(lstrip), "rstrip": bool(rstrip), "single_word": bool(single_word)}
        special = bool(special)
        keep = not special if normalized is None else bool(normalized)
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
            tokens.append(AddedToken(content, number, special, **flags, normalized=keep))
        tokenizer = Tokenizer(replace(self._parts, added_tokens=self._added.extended(tokens), name=""))
        tokenizer._cache_budget = self._cache_budget
        return tokenizer

    def add_special_tokens(self, contents: Iterable[str], **flags: bool) -> "Tokenizer":
        """:meth:`add_tokens` of special ones.

        >>> numbatok.get_encoding("gpt2").add_special_tokens(["<|user|>"]).special_tokens
        {'<|endoftext|>': 50256, '<|user|>': 50257}
        """
        return self.add_tokens(contents, special=True, **flags)

    def with_dropout(self, probability: float, seed: int | None = None) -> "Tokenizer":
        """A new tokenizer that puts off each merge that is due with a probability, as BPE-dropout does.

        Its ids are random, and always those of the text. Calls one after the other in one thread give the same ids for
        the same ``seed``. Nothing is cached, so it is slower. (Provilkov, Emelianenko and Voita, "BPE-Dropout: Simple
        and Effective Subword Regularization", 2020.) Raises TypeError for a probability that is no number, and
        ValueError for one that is not from 0 to 1.

        >>> tokenizer = numbatok.get_encoding("gpt2").with_dropout(0.5, seed=7)
        >>> tokenizer.decode(tokenizer.encode("Hello world"))
        'Hello world'
        """
        if isinstance(probability, bool) or not isinstance(probability, int | float | np.integer | np.floating):
            raise TypeError(f"probability must be a number from 0 to 1, not {type(probability).__name__}")
        options = replace(self._vocabulary.options, dropout=float(probability))
        tokenizer = Tokenizer(replace(self._parts, vocabulary=replace(self._vocabulary, options=options)))
        tokenizer._cache_budget = self._cache_budget
        if seed is not None:
            tokenizer._start().scratches.seed(seed)
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
        num_threads: int | None = None,
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
        num_threads : how many threads a long text may be split among; None is :func:`numbatok.get_num_threads`. The ids
            are the same for any number.

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
        if num_threads is not None:
            check_threads(num_threads, "num_threads")
        if allowed_special is _ALL and disallowed_special is _NONE and errors is _STRICT and pair is None:
            ids: Ids | None = engine.encode_plain[not add_special_tokens](text)
            if ids is not None:
                return ids
        actions = self._actions(engine, allowed_special, disallowed_special, errors)
        try:
            if pair is None:
                return engine.encode(text, actions, errors, bool(add_special_tokens), num_threads)
            call = Call(actions, errors, bool(add_special_tokens), num_threads)
            return engine.encode_batch([text], [pair], call).ids.astype(np.uint32, copy=False)
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
        num_threads: int | None = None,
    ) -> tuple[Ids, Offsets]:
        """The ids of a text, or pair of texts, and where each stands in the text.

        The offsets are int64, one row ``(begin, end)`` an id, with the meaning that ``tokenizers`` gives them: they
        refer to the text before normalizing, in characters, or with ``unit="byte"`` in bytes of its UTF-8. An id
        covers whole characters in either unit: ids that share one all have its span, so that spans can overlap. Those
        of a pair's second text refer to that; a template's ids have (0, 0). Where the file says ``trim_offsets``,
        blanks at the ends of tokens are left out. The other arguments and errors are those of :meth:`encode`; in bytes
        with ``errors="replace"``, the places are those in the bytes given.

        >>> ids, offsets = numbatok.get_encoding("gpt2").encode_with_offsets("naïve ☃")
        >>> ids.tolist(), offsets.tolist()
        ([2616, 38776, 34719, 225], [[0, 2], [2, 5], [5, 7], [6, 7]])
        """
        check_unit(unit, "unit")
        if num_threads is not None:
            check_threads(num_threads, "num_threads")
        if pair is None and allowed_special is _ALL and disallowed_special is _NONE and errors is _STRICT:
            engine = self._engine or self._start()
            short = engine.locator.short_way(bool(add_special_tokens), unit)(text)
            if short is not None:
                return short
        engine = self._engine or self._start()
        seconds = None if pair is None else [pair]
        actions = self._actions(engine, allowed_special, disallowed_special, errors)
        call = Call(actions, errors, bool(add_special_tokens), num_threads, aligned=True)
        try:
            encoded = engine.encode_batch([text], seconds, call)
            places = engine.locator.locate(encoded, [text], seconds, unit, actions)
        except DisallowedToken as found:
            raise self._disallowed(found, [text], seconds, "") from None
        return encoded.ids.astype(np.uint32, copy=False), places

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
        num_threads: int | None = None,
        dtype: npt.DTypeLike | None = None,
        out: AnyIds | None = None,
    ) -> TokenBatch:
        """The ids of many texts, flat.

        Parameters
        ----------
        texts : any iterable of texts as :meth:`encode` takes them; those of a list or tuple of ``str`` are read in
            place. So is a column of strings, or of UTF-8 as binary, that is Arrow's (of pyarrow, chunked or not, and
            of polars, pandas and others where pyarrow is installed), without an object for each text; one of NumPy's
            StringDType is copied once. What is null in a column is null in the batch: :attr:`TokenBatch.validity`.
        pairs : the second texts, one for each
        return_offsets : ``"char"`` or ``"byte"``: the batch has :attr:`TokenBatch.token_offsets`, those of
            :meth:`encode_with_offsets` in this unit
        dtype : of the ids: uint32, or uint16 where the vocabulary has no more than 65,536 ids
        out : a one-dimensional uint32 or uint16 array, a memory map too, that the ids are written to instead of a new
            one; the batch's ids are its first part

        The other arguments, and the exceptions, are those of :meth:`encode`; an exception names the index of the text
        that it is about, and nothing is returned of others. An ``out`` that is too small is a ValueError that says how
        many ids there are; like any exception, it leaves ``out`` with anything in it.

        >>> batch = numbatok.get_encoding("gpt2").encode_batch(["Hello world", "again"])
        >>> batch.ids, batch.offsets
        (array([15496,   995, 17776], dtype=uint32), array([0, 2, 3]))
        """
        documents, seconds = _as_pairs(texts, pairs)
        if return_offsets is not None:
            check_unit(return_offsets, "return_offsets")
        if num_threads is not None:
            check_threads(num_threads, "num_threads")
        engine = self._engine or self._start()
        actions = self._actions(engine, allowed_special, disallowed_special, errors)
        id_type = id_type_of(dtype, out, self.vocab_size) if dtype is not None or out is not None else np.uint32
        call = Call(actions, errors, bool(add_special_tokens), num_threads, id_type, out)
        return self._encode_batch(engine, documents, seconds, call, return_offsets)

    async def aencode_batch(
        self,
        texts: Iterable[Text],
        pairs: Iterable[Text] | None = None,
        *,
        add_special_tokens: bool = True,
        allowed_special: AllowedSpecial = _ALL,
        disallowed_special: AllowedSpecial = _NONE,
        errors: Errors = _STRICT,
        num_threads: int | None = None,
    ) -> TokenBatch:
        """:meth:`encode_batch` in another thread, while the event loop goes on.

        When the task that awaits it is cancelled the work ends within a fraction of a second.

        >>> batch = await tokenizer.aencode_batch(["Hello world", "again"])
        """
        import asyncio  # at the top it would be a tenth of the time that the first call takes

        documents, seconds = _as_pairs(texts, pairs)
        cancelled = threading.Event()

        def check() -> None:
            if cancelled.is_set():
                raise _Cancelled

        def work() -> TokenBatch:
            engine = self._engine or self._start()
            actions = self._actions(engine, allowed_special, disallowed_special, errors)
            call = Call(actions, errors, bool(add_special_tokens), num_threads, check=check)
            return self._encode_batch(engine, documents, seconds, call)

        try:
            return await asyncio.get_running_loop().run_in_executor(None, work)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    def _encode_batch(
        self,
        engine: "Engine",
        documents: Texts,
        seconds: Texts | None,
        call: Call,
        unit: OffsetUnit | None = None,
    ) -> TokenBatch:
        """What :meth:`encode_batch` returns, once its arguments are checked."""
        if seconds is None and unit is None and (few := engine.encode_few(documents, call)) is not None:
            return TokenBatch(*few)
        documents, seconds, validity = without_nulls(documents, seconds)
        try:
            encoded = engine.encode_batch(documents, seconds, call._replace(aligned=unit is not None))
            places = None if unit is None else engine.locator.locate(encoded, documents, seconds, unit, call.actions)
        except DisallowedToken as found:
            where = f" at index {index_given(documents, found.document)} of the batch"
            raise self._disallowed(found, documents, seconds, where) from None
        types = types_of(encoded.frame, encoded.documents, encoded.ends) if encoded.frame.types.any() else None
        return TokenBatch(encoded.ids, spread(encoded.offsets, validity), types, places, validity)

    def encode_windows(
        self,
        texts: Iterable[Text],
        pairs: Iterable[Text] | None = None,
        *,
        max_length: int | None,
        stride: int = 0,
        strategy: "Strategy" = "longest_first",
        direction: Literal["left", "right"] = "right",
        overflow: bool = True,
        add_special_tokens: bool = True,
        allowed_special: AllowedSpecial = _ALL,
        disallowed_special: AllowedSpecial = _NONE,
        errors: Errors = _STRICT,
    ) -> "Windows":
        """The ids of many texts, or pairs, in rows of at most ``max_length``, as ``tokenizers`` truncates them.

        Parameters
        ----------
        texts, pairs : as :meth:`encode_batch` takes them
        max_length : most ids of a row, the template's special tokens among them; None cuts nothing
        stride : how many ids of a text each window repeats of the one before
        strategy : which text of a pair is cut: ``"longest_first"`` the longer one down to the other, then both;
            ``"only_first"``, ``"only_second"``
        direction : where ids are cut off, and so which end the first window is at: ``"right"`` keeps a text's beginning
        overflow : whether what is cut off comes in windows of its own; else there is one row for each text
        add_special_tokens, allowed_special, disallowed_special, errors : as in :meth:`encode`

        Returns
        -------
        (batch, owners, words) : a :class:`TokenBatch` of the rows; int64, the index of the text that each is of; None.
            Where both texts of a pair are cut, each window of one goes with each of the other.

        Raises ValueError, besides those of :meth:`encode_batch`, where ``max_length`` leaves no room for more than the
        stride, or a pair is too long though the text that may be cut is cut away; it names the pair.

        >>> windows = numbatok.get_encoding("gpt2").encode_windows(["a b c d e"], max_length=3, stride=1)
        >>> windows.batch.tolist(), windows.owners
        ([[64, 275, 269], [269, 288, 304]], array([0, 0]))
        """
        from numbatok.windows import TextIds, checked_cut, cut_texts

        cut = checked_cut(max_length, stride, strategy, direction, overflow, pairs is not None)
        documents, seconds = _as_pairs(texts, pairs)
        engine = self._engine or self._start()
        actions = self._actions(engine, allowed_special, disallowed_special, errors)
        sides: list[TextIds] = []
        for which in (documents, seconds):
            refuse_nulls(which)
            if which is None:
                continue
            try:
                encoded = engine.encode_batch(which, None, Call(actions, errors, None))
            except DisallowedToken as found:
                found.second = which is seconds
                where = f" at index {found.document} of the batch"
                raise self._disallowed(found, documents, seconds, where) from None
            sides.append(TextIds(encoded.ids, encoded.offsets))
        return cut_texts(engine.frame(pairs is not None, bool(add_special_tokens)), sides[0], (*sides, None)[1], cut)

    def encode_words(
        self,
        documents: Iterable[Iterable[str]],
        pairs: Iterable[Iterable[str]] | None = None,
        *,
        max_length: int | None = None,
        stride: int = 0,
        strategy: "Strategy" = "longest_first",
        direction: Literal["left", "right"] = "right",
        overflow: bool = False,
        add_special_tokens: bool = True,
        allowed_special: AllowedSpecial = _ALL,
        disallowed_special: AllowedSpecial = _NONE,
    ) -> "Windows":
        """The ids of documents that come as words, and the word that each id is of.

        Each word is encoded by itself, as ``tokenizers`` does with ``is_pretokenized=True``: GPT-2's tokens for words
        inside a text begin with a space, so give it ``" world"`` for those. ``documents`` and ``pairs`` hold sequences
        of ``str``; the other arguments and exceptions are those of :meth:`encode_windows`, but that nothing is cut
        unless ``max_length`` is given.

        Returns (batch, owners, words): int32 ``words`` has, for each of ``batch.ids``, the index of its word in its
        document, or in the second document of a pair, and -1 for the template's special tokens.

        >>> numbatok.get_encoding("gpt2").encode_words([["Hello", " tokenizer"], [" world"]])[::2]
        (TokenBatch(2 documents, 4 ids), array([0, 1, 1, 0], dtype=int32))
        """
        from numbatok.windows import TextIds, checked_cut, cut_texts, texts_of_words, word_at, words_of

        cut = checked_cut(max_length, stride, strategy, direction, overflow, pairs is not None)
        given = [words_of(documents, "documents")]
        if pairs is not None:
            given.append(words_of(pairs, "pairs"))
            if len(given[0][1]) != len(given[1][1]):
                raise ValueError(
                    f"{len(given[0][1]) - 1} documents are given with {len(given[1][1]) - 1} pairs; each needs one"
                )
        engine = self._engine or self._start()
        actions = self._actions(engine, allowed_special, disallowed_special, "strict")
        sides: list[TextIds] = []
        for words, edges in given:
            try:
                encoded = engine.encode_batch(words, None, Call(actions, "strict", None))
            except DisallowedToken as found:
                document, word = word_at(found.document, edges)
                where = f" at index {word} of the {'' if not sides else 'second '}document at index {document}"
                raise self._disallowed(found, words, None, where, "word") from None
            sides.append(texts_of_words(encoded.ids, encoded.offsets, edges))
        return cut_texts(engine.frame(pairs is not None, bool(add_special_tokens)), sides[0], (*sides, None)[1], cut)

    def encode_segments(self, segments: "Iterable[tuple[Text, Kind]]", *, errors: Errors = _STRICT) -> TokenBatch:
        """The ids of a prompt in segments, of which only those declared special become special tokens.

        Parameters
        ----------
        segments : (content, kind) each, where the kind is

            * ``"special"``: the content is one special token, or another added token, and becomes its id;
            * ``"text"``: a text as :meth:`encode` takes it, in which special tokens are ordinary text. Added tokens
              that are not special (:attr:`added_tokens`) still become their ids;
            * ``"plain"``: a text in which these are ordinary text, too. Some models have control tokens among them,
              such as ``</s>`` of Phi 3 or ``<tool_call>`` of Qwen 3: take it for what users write.
        errors : as :meth:`encode` has it

        Returns
        -------
        A batch of a document for each segment: ``batch.ids`` are the ids of the whole, and segment ``i`` is
        ``ids[offsets[i]:offsets[i + 1]]``.

        Each segment is a text of its own: nothing merges across a seam, and a normalizer or a prefix space counts from
        its start; to have two texts merged, join them. The template's special tokens are not added. Raises ValueError
        for a special segment that is none, and for a text that the vocabulary merges into a special token.

        >>> tok = numbatok.get_encoding("gpt2").add_special_tokens(["<|user|>"])
        >>> tok.encode_segments([("<|user|>", "special"), ("Hello <|user|>", "text")]).tolist()
        [[50257], [15496, 1279, 91, 7220, 91, 29]]
        """
        from numbatok.segments import encode_segments

        check_errors(errors)
        return encode_segments(self._engine or self._start(), self._parts, segments, errors)

    def count(
        self,
        text: Text,
        *,
        add_special_tokens: bool = True,
        allowed_special: AllowedSpecial = _ALL,
        disallowed_special: AllowedSpecial = _NONE,
        errors: Errors = _STRICT,
        num_threads: int | None = None,
    ) -> int:
        """How many ids :meth:`encode` gives, without keeping them.

        >>> numbatok.get_encoding("gpt2").count("Hello world")
        2
        """
        engine = self._engine or self._start()
        if num_threads is not None:
            check_threads(num_threads, "num_threads")
        if allowed_special is _ALL and disallowed_special is _NONE and errors is _STRICT:
            count: int | None = engine.count_plain[not add_special_tokens](text)
            if count is not None:
                return count
        actions = self._actions(engine, allowed_special, disallowed_special, errors)
        call = Call(actions, errors, bool(add_special_tokens), num_threads, count_only=True)
        try:
            return int(engine.encode_batch([text], None, call).offsets[1])
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
        num_threads: int | None = None,
    ) -> npt.NDArray[np.int64]:
        """How many ids :meth:`encode_batch` gives for each text: int64, one number a text, 0 for a null.

        >>> numbatok.get_encoding("gpt2").count_batch(["Hello world", "", "again"])
        array([2, 0, 1])
        """
        given = _as_documents(texts)
        if num_threads is not None:
            check_threads(num_threads, "num_threads")
        engine = self._engine or self._start()
        actions = self._actions(engine, allowed_special, disallowed_special, errors)
        call = Call(actions, errors, bool(add_special_tokens), num_threads, count_only=True)
        if (few := engine.encode_few(given, call)) is not None:
            return np.diff(few[1])
        documents, _, validity = without_nulls(given, None)
        try:
            return np.diff(spread(engine.encode_batch(documents, None, call).offsets, validity))
        except DisallowedToken as found:
            where = f" at index {index_given(documents, found.document)} of the batch"
            raise self._disallowed(found, documents, None, where) from None

    # --- budgets ---

    def fits(
        self,
        text: Text,
        max_tokens: int,
        *,
        add_special_tokens: bool = True,
        allowed_special: AllowedSpecial = _ALL,
        disallowed_special: AllowedSpecial = _NONE,
        errors: Errors = _STRICT,
    ) -> bool:
        """Whether :meth:`encode` gives at most ``max_tokens`` ids, without going on once there are more.

        The arguments and exceptions are those of :meth:`encode`; what follows the last token that was looked at raises
        none. ValueError where ``max_tokens`` is negative.

        >>> numbatok.get_encoding("gpt2").fits("Hello world", 2)
        True
        """
        from numbatok.budgets import fits, overhead_of
        from numbatok.rows import checked_number

        max_tokens = checked_number("max_tokens", max_tokens, 0)
        engine = self._engine or self._start()
        actions = self._actions(engine, allowed_special, disallowed_special, errors)
        room = overhead_of(engine, bool(add_special_tokens)).room(max_tokens)
        try:
            return fits(engine, text, room, actions, errors)
        except DisallowedToken as found:
            raise self._disallowed(found, [text], None, "") from None

    def truncate(
        self,
        text: Text,
        max_tokens: int,
        side: Literal["left", "right"] = "right",
        *,
        add_special_tokens: bool = True,
        allowed_special: AllowedSpecial = _ALL,
        disallowed_special: AllowedSpecial = _NONE,
        errors: Errors = _STRICT,
    ) -> str:
        """The longest beginning of a text of which :meth:`encode` gives at most ``max_tokens`` ids.

        Parameters
        ----------
        text : as :meth:`encode` takes it
        max_tokens : most ids; those that the template puts around a text count, unless ``add_special_tokens`` is False
        side : where it is cut off: ``"left"`` gives the longest end of the text
        add_special_tokens, allowed_special, disallowed_special, errors : as in :meth:`encode`

        It is cut between characters. More characters can have fewer tokens: no longer beginning fits, though a shorter
        one may not. (One exception: with ``side="left"``, where the cut is within a run of thousands of the same sign,
        a slightly longer end may fit.) Lone surrogates, and with ``errors="replace"`` what is not UTF-8, are U+FFFD in
        what is returned. Raises ValueError where ``max_tokens`` is fewer than the template alone has.

        >>> numbatok.get_encoding("gpt2").truncate("Hello tokenizer", 2)
        'Hello token'
        """
        from numbatok.budgets import overhead_of, source_of, truncate
        from numbatok.rows import checked_choice

        checked_choice("side", side, ("left", "right"))
        engine = self._engine or self._start()
        actions = self._actions(engine, allowed_special, disallowed_special, errors)
        room = _room(overhead_of(engine, bool(add_special_tokens)), max_tokens, 0)
        source = source_of(engine, text, errors)
        try:
            return truncate(engine, self._parts, source, room, side, actions)
        except DisallowedToken as found:
            raise self._disallowed(found, [source.text], None, "") from None

    def chunk(
        self,
        text: Text,
        max_tokens: int,
        overlap: int = 0,
        at: "At" = "piece",
        *,
        add_special_tokens: bool = True,
        allowed_special: AllowedSpecial = _ALL,
        disallowed_special: AllowedSpecial = _NONE,
        errors: Errors = _STRICT,
    ) -> "list[Chunk]":
        """Cut a text into parts of which :meth:`encode` gives at most ``max_tokens`` ids each.

        Parameters
        ----------
        text : as :meth:`encode` takes it
        max_tokens : most ids of a chunk; those that the template puts around a text count, unless
            ``add_special_tokens`` is False
        overlap : most ids of a chunk's end that the next one begins with, fewer than ``max_tokens``
        at : where chunks end: ``"piece"`` between pretokens, ``"sentence"``, ``"line"`` (after a line feed), or
            ``"paragraph"`` (after an empty line). What is too long for one chunk is cut at the next finer, a pretoken
            between characters.
        add_special_tokens, allowed_special, disallowed_special, errors : as in :meth:`encode`

        Returns
        -------
        A list of (start, end, text, n_tokens): characters of the text from ``start`` to ``end``, and what ``encode``
        gives of them. The chunks cover the text, in order. Where it has surrogates, or bytes that were replaced,
        characters are those of the repaired text. An empty text has none.

        Raises ValueError where ``max_tokens`` leaves no room for the text's next character.

        >>> [chunk[:2] for chunk in numbatok.get_encoding("gpt2").chunk("Hello world again", 2)]
        [(0, 11), (11, 17)]
        """
        from numbatok.budgets import chunk, overhead_of, source_of
        from numbatok.chunks import LEVELS
        from numbatok.rows import checked_choice, checked_number

        checked_choice("at", at, LEVELS)
        engine = self._engine or self._start()
        actions = self._actions(engine, allowed_special, disallowed_special, errors)
        overhead = overhead_of(engine, bool(add_special_tokens))
        room = _room(overhead, max_tokens, 1)
        overlap = checked_number("overlap", overlap, 0)
        if overlap >= room:
            raise ValueError(f"overlap must be smaller than max_tokens leaves for the text, {room}, not {overlap}")
        source = source_of(engine, text, errors)
        try:
            return chunk(engine, self._parts, source, overhead, int(max_tokens), overlap, at, actions)
        except DisallowedToken as found:
            raise self._disallowed(found, [source.text], None, "") from None

    def pretokenize(
        self, text: Text, *, errors: Errors = _STRICT, num_threads: int | None = None
    ) -> npt.NDArray[np.int64]:
        """Where the split rule cuts a text: byte offsets into its UTF-8, from 0 to its length.

        Pretoken ``i`` is ``text[boundaries[i]:boundaries[i + 1]]``. Added tokens are not looked for; an empty text has
        the one boundary 0.

        >>> numbatok.get_encoding("gpt2").pretokenize("Hello world!")
        array([ 0,  5, 11, 12])
        """
        check_errors(errors)
        return (self._engine or self._start()).pretokenize(text, errors, num_threads)

    # --- inside other kernels ---

    def kernel_view(self) -> npt.NDArray[np.int64]:
        """What :func:`numbatok.kernels.inside.encode_into` and the like take as ``view``: an int64 array of addresses.

        It is valid as long as this tokenizer is. ValueError where kernels alone do not do: text is normalized or gets a
        space before it, the package ``regex`` runs the split rule, or ids are decoded as strings or lie far apart.

        >>> view = numbatok.get_encoding("gpt2").kernel_view()
        """
        from numbatok.access import kernel_view

        return kernel_view(self._engine or self._start(), self._parts)

    def new_scratch(
        self, *, cache_bytes: int = 8 << 20, longest: int = 1 << 16, seed: int | None = None
    ) -> npt.NDArray[np.int64]:
        """What the same functions take as ``scratch``: an int64 array that holds a cache and buffers, for one thread.

        ``cache_bytes`` is about what the cache takes, ``longest`` the bytes of the longest pretoken that can be merged;
        both are 2 GiB at most. Dropout draws its random numbers from ``seed`` on; with None they begin anywhere.

        >>> scratches = tuple(numbatok.get_encoding("gpt2").new_scratch() for thread in range(2))
        """
        from numbatok.access import LEAST_CACHE, new_scratch
        from numbatok.rows import checked_number

        size = checked_number("cache_bytes", cache_bytes, LEAST_CACHE, 1 << 31)
        longest = checked_number("longest", longest, 256, 1 << 31)
        if seed is not None:
            checked_number("seed", seed, 0)
            seed = int(seed)  # all of it, where a number of tokens has a bound
        return new_scratch(self._engine or self._start(), size, longest, seed)

    # --- caches ---

    def cache_info(self) -> CacheInfo:
        """How many pretokens are cached, in how much memory, and how often one was found.

        >>> numbatok.get_encoding("gpt2").cache_info()
        CacheInfo(entries=0, bytes=0, budget=268435456, hits=0, misses=0)
        """
        if self._engine is None:
            return CacheInfo(0, 0, CacheBudget(self._cache_budget).size, 0, 0)
        return self._engine.scratches.cache_info()

    def clear_cache(self) -> None:
        """Give the caches' memory back and count anew; calls that are under way keep theirs.

        >>> numbatok.get_encoding("gpt2").clear_cache()
        """
        if self._engine is not None:
            self._engine.scratches.clear(self._cache_budget)

    def set_cache_budget(self, size: int | None) -> None:
        """Let this tokenizer's caches take at most ``size`` bytes, all workers together, and clear them.

        Some 200 KiB a worker are always taken. None is what :func:`numbatok.set_cache_budget` says for all tokenizers.

        >>> numbatok.get_encoding("gpt2").set_cache_budget(64 << 20)
        """
        self._cache_budget = None if size is None else check_budget(size)
        self.clear_cache()

    # --- decoding ---

    def decode_bytes(self, ids: object, *, skip_special_tokens: bool = False) -> bytes:
        """The bytes of a sequence of ids.

        ``ids`` is a one-dimensional array of any integer type, or a sequence of ints. Raises TypeError for anything
        else, and ValueError for an id that is not in the vocabulary, naming it and its position.

        >>> numbatok.get_encoding("gpt2").decode_bytes([34719])  # the first two bytes of a snowman, after a space
        b' \\xe2\\x98'
        """
        if self._parts.decoder:
            return self.decode(ids, skip_special_tokens=skip_special_tokens).encode()
        data = self._decode_list(ids, skip_special_tokens)
        return self._decode_one(ids, skip_special_tokens).tobytes() if data is None else data

    def decode(self, ids: object, *, errors: str = "replace", skip_special_tokens: bool = False) -> str:
        """The text of a sequence of ids: that of :meth:`decode_bytes`, decoded as UTF-8.

        ``errors`` is what ``bytes.decode`` takes (LookupError for another); ids can end in the middle of a character.

        >>> numbatok.get_encoding("gpt2").decode([15496, 995])
        'Hello world'
        """
        if errors != "replace":
            codecs.lookup_error(errors)  # bytes.decode looks it up only where bytes are not UTF-8
        if self._parts.decoder:
            array = as_ids(ids, self.vocab_size)
            return self._decode_strings(array, np.array([0, len(array)], np.int64), skip_special_tokens, batch=False)[0]
        data = self._decode_list(ids, skip_special_tokens)
        return str(self._decode_one(ids, skip_special_tokens).data if data is None else data, "utf-8", errors)

    def decode_batch(
        self,
        batch: "TokenBatch | Iterable[object]",
        *,
        errors: str = "replace",
        skip_special_tokens: bool = False,
        num_threads: int | None = None,
    ) -> list[str]:
        """The text of each document of a :class:`TokenBatch`, or of an iterable of sequences of ids.

        >>> numbatok.get_encoding("gpt2").decode_batch([[15496, 995], [], [17776]])
        ['Hello world', '', 'again']
        """
        codecs.lookup_error(errors)
        if num_threads is not None:
            check_threads(num_threads, "num_threads")
        ids, offsets = as_flat_ids(batch, self.vocab_size)
        if self._parts.decoder:
            return self._decode_strings(ids, offsets, skip_special_tokens, batch=True)
        data, ends = self._decode(ids, offsets, skip_special_tokens, batch=True, threads=num_threads)
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

    def with_prefix_cache(self, max_bytes: int, *, add_special_tokens: bool = True) -> "PrefixCache":
        """An encoder that remembers texts, of ``max_bytes`` with their ids at most, and goes on where one is extended.

        For chats, whose every turn begins with all before it, and for prompts that share their beginning; see its
        class. ``add_special_tokens`` is that of :meth:`encode`.

        >>> chat = numbatok.get_encoding("gpt2").with_prefix_cache(64 << 20)
        >>> chat.encode("Hello"), chat.encode("Hello world")
        (array([15496], dtype=uint32), array([15496,   995], dtype=uint32))
        """
        from numbatok.prefix_cache import PrefixCache

        special = bool(add_special_tokens)
        engine = self._engine or self._start()
        stream = self.stream_encoder(add_special_tokens=special)
        return PrefixCache(self, engine, self._parts, stream, max_bytes, special)

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
        from numbatok.batch_streams import BatchStreamDecoder, tables_of
        from numbatok.rows import checked_number

        count = checked_number("count", count, 0)
        skip = bool(skip_special_tokens)
        strings = self._strings(skip)
        if skip not in self._stream_tables:
            self._stream_tables[skip] = tables_of((self._engine or self._start()).decoder, skip, strings)
        return BatchStreamDecoder(count, strings, self._stream_tables[skip])

    # --- inside ---

    def _strings(self, skip_special_tokens: bool) -> "Strings":
        """The string of each id, for stream decoders, which share them."""
        from numbatok.stream_decoders import Strings

        if skip_special_tokens not in self._strings_of:
            skipped = self._parts.skipped if skip_special_tokens else frozenset()
            self._strings_of[skip_special_tokens] = Strings(
                self._parts.decoded, skipped, self.vocab_size, self._parts.decoder
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
        return Engine(self._parts, self._regex_rule, self._cache_budget)

    def _actions(
        self, engine: "Engine", allowed: AllowedSpecial, disallowed: AllowedSpecial, errors: str
    ) -> npt.NDArray[np.uint8]:
        """The arguments of a call checked, and what they mean for each added token."""
        check_errors(errors)
        if allowed == "all" and isinstance(disallowed, tuple) and not disallowed:
            return engine.everything_allowed
        return engine.actions(self._added.policy(allowed, disallowed))

    def _disallowed(
        self,
        found: DisallowedToken,
        texts: Texts,
        seconds: Texts | None,
        where: str,
        kind: str = "text",
    ) -> ValueError:
        """The error for a disallowed token: which, where, and what to do."""
        token = self._added[found.token].content
        text = texts[found.document]
        if found.second and seconds is not None:
            text = seconds[found.document]
            where = f" of the pair's second text{where}"
        elif where:
            where = f" of the {kind}{where}"
        if isinstance(text, str):
            place = f"character {character_at_byte(text, found.position)}"
        else:
            place = f"byte {byte_before_replacing(bytes(text), found.position)}"
        return ValueError(
            f"the text has the disallowed special token {token!r} at {place}{where}. To encode it as its id, pass "
            f"allowed_special={{{token!r}}} and leave it out of disallowed_special; to encode it as ordinary text, "
            "pass allowed_special=() and disallowed_special=()"
        )

    def _decode_list(self, ids: object, skip_special_tokens: bool) -> bytes | None:
        """The bytes of a list of ids, or None where it has to be looked at closer."""
        if isinstance(ids, np.ndarray) and ids.size <= _MOST_LISTED:
            ids = ids.tolist()
        if type(ids) is not list or not ids or type(ids[0]) is not int:  # not of bools, which are no ids
            return None
        return (self._engine or self._start()).decoder.list_decoders[bool(skip_special_tokens)](ids)

    def _decode_one(self, ids: object, skip_special_tokens: bool) -> npt.NDArray[np.uint8]:
        """The bytes of one document's ids."""
        array = as_ids(ids, self.vocab_size)
        return self._decode(array, np.array([0, len(array)], np.int64), skip_special_tokens, batch=False)[0]

    def _decode_strings(self, ids: Ids, offsets: Offsets, skip_special_tokens: bool, *, batch: bool) -> list[str]:
        """The texts that the decoder makes of the strings of each document's tokens."""
        skipped = self._parts.skipped if skip_special_tokens else frozenset()
        numbers = ids.tolist()
        texts = []
        for begin, end in pairwise(offsets.tolist()):
            strings = []
            for place in range(begin, end):
                token = self._parts.decoded(numbers[place])
                if token is None:
                    raise unknown_id(ids, place, offsets, self.vocab_size, batch)
                if numbers[place] not in skipped:
                    strings.append(token.decode("utf-8", "replace"))
            texts.append(decoders.decode(strings, self._parts.decoder))
        return texts

    def _decode(
        self, ids: Ids, offsets: Offsets, skip_special_tokens: bool, *, batch: bool, threads: int | None = None
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        engine = self._engine or self._start()
        try:
            return engine.decoder.decode(ids, offsets, bool(skip_special_tokens), threads)
        except UnknownId as found:
            raise unknown_id(ids, found.place, offsets, self.vocab_size, batch) from None


class _Cancelled(Exception):
    """Ends work that nobody waits for any more."""


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


def _as_pairs(texts: Iterable[Text], pairs: Iterable[Text] | None) -> tuple[Texts, Texts | None]:
    """Lists of our own, or columns, of texts and of their second texts, if there are any."""
    documents = _as_documents(texts)
    seconds = None if pairs is None else _as_documents(pairs)
    if seconds is not None and len(seconds) != len(documents):
        raise ValueError(f"{len(documents)} texts are given with {len(seconds)} pairs; each text needs one")
    return documents, seconds


def _room(overhead: "Overhead", max_tokens: int, least: int) -> int:
    """How many tokens of a text a budget leaves; ValueError if fewer than ``least``."""
    from numbatok.rows import checked_number

    room = overhead.room(checked_number("max_tokens", max_tokens, least))
    if room < least:
        raise ValueError(
            f"max_tokens is {max_tokens}, and the template alone puts {overhead.added} special tokens around a text; "
            "pass a larger one, or add_special_tokens=False"
        )
    return room


def _as_documents(texts: Iterable[Text]) -> Texts:
    """A column, or a list of our own: the texts stay alive and in place whatever others do to the caller's."""
    column = column_of(texts)
    if column is not None:
        return column
    if isinstance(texts, str | bytes | bytearray | memoryview):
        raise TypeError(f"texts must be an iterable of texts, not one {type(texts).__name__}; encode takes one text")
    if isinstance(texts, np.ndarray) and texts.dtype == np.uint8 and texts.ndim == 1:
        raise TypeError("texts must be an iterable of texts, not one uint8 array; encode takes one text")
    try:
        return list(texts)
    except TypeError:
        raise TypeError(f"texts must be an iterable of texts, not {type(texts).__name__}") from None

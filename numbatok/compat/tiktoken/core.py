"""tiktoken's ``Encoding`` over :class:`numbatok.Tokenizer`.

A call with the usual arguments goes to the kernel at once, with what it has to do at each special token. Others, and
all that raise, are worked out in :meth:`Encoding._encode`, in the order in which tiktoken does it.
"""

import functools
import operator
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from numbatok.compat.tiktoken.special import (
    NOTHING,
    Allowed,
    Disallowed,
    Policy,
    SpecialTokens,
    raise_disallowed_special_token,
    refuse,
)
from numbatok.compat.tiktoken.unstable import Completions, last_piece, merge_bytes
from numbatok.errors import DisallowedToken
from numbatok.text import repair_surrogates
from numbatok.threads import get_num_threads
from numbatok.tokenizer import Tokenizer

if TYPE_CHECKING:
    from numbatok.byte_decoder import DecodeList
    from numbatok.lists import ListEncoder

__all__ = ["Encoding", "raise_disallowed_special_token"]

_Result = TypeVar("_Result")

# With NOTHING the defaults of encoding calls: told by identity, which costs a short call less than comparing.
_ALL: Literal["all"] = "all"

_MOST = (1 << 32) - 1


class Encoding:
    """A tokenizer as tiktoken has it.

    Parameters
    ----------
    name : what it is called
    pat_str : the regular expression whose matches are merged; text between them is dropped
    mergeable_ranks : the rank of each token, which is its id; each of the 256 bytes is one
    special_tokens : the special tokens with their ids
    explicit_n_vocab : the number of all tokens, if they are to be counted; AssertionError where there are others

    A pattern that no automaton can run is left to the package ``regex``, with a RuntimeWarning. Raises ValueError,
    TypeError or OverflowError for ranks and special tokens that make no vocabulary.

    Any number of threads may use one encoding at once. ``num_threads`` of the batch methods is the most that they use:
    by default as many as :func:`numbatok.get_num_threads` says, and at most 8.

    >>> encoding = tiktoken.Encoding("mine", pat_str=r"\\p{L}+|\\P{L}", mergeable_ranks=ranks, special_tokens={})
    """

    name: str
    max_token_value: int

    def __init__(
        self,
        name: str,
        *,
        pat_str: str,
        mergeable_ranks: dict[bytes, int],
        special_tokens: dict[str, int],
        explicit_n_vocab: int | None = None,
    ) -> None:
        top = max(max(mergeable_ranks.values()), max(special_tokens.values(), default=0))
        count = len(mergeable_ranks) + len(special_tokens)
        if explicit_n_vocab and not count == explicit_n_vocab == top + 1:
            raise AssertionError(
                f"explicit_n_vocab is {explicit_n_vocab}, but there are {count} tokens, and the largest id is {top}"
            )
        for id in chain(mergeable_ranks.values(), special_tokens.values()):
            if not 0 <= id <= _MOST:
                raise OverflowError(f"id {id} is out of range; ids are 0 to 2**32 - 1")
        for token in special_tokens:
            if isinstance(token, str):
                token.encode()  # raises for lone surrogates, as tiktoken does
        self._mergeable_ranks = mergeable_ranks
        ordinary = set(mergeable_ranks.values())
        tokenizer = Tokenizer.from_tiktoken(
            {token: operator.index(rank) for token, rank in mergeable_ranks.items()},
            pattern=pat_str,
            # One with the id of another token is left to Python: here it is encoded, and decoded as the other.
            special_tokens={
                token: operator.index(id)
                for token, id in special_tokens.items()
                if id not in ordinary or mergeable_ranks.get(token.encode()) == id
            },
            name=name,
            pattern_engine="regex",
        )
        self._set(name, tokenizer, pat_str, special_tokens, top)

    @classmethod
    def _of_tokenizer(cls, tokenizer: Tokenizer, pat_str: str, special_tokens: dict[str, int]) -> "Encoding":
        """A tokenizer with tiktoken's interface; its ranks become a dictionary when they are asked for."""
        encoding = cls.__new__(cls)
        encoding._set(tokenizer.name, tokenizer, pat_str, special_tokens, tokenizer.vocab_size - 1)
        return encoding

    @classmethod
    def from_tiktoken(cls, encoding: Any) -> "Encoding":
        """What a ``tiktoken.Encoding`` is, made anew."""
        return cls(
            encoding.name,
            pat_str=encoding._pat_str,
            mergeable_ranks=encoding._mergeable_ranks,
            special_tokens=encoding._special_tokens,
        )

    def _set(
        self, name: str, tokenizer: Tokenizer, pat_str: str, special_tokens: dict[str, int], max_token_value: int
    ) -> None:
        self.name = name
        self.max_token_value = max_token_value
        self._pat_str = pat_str
        self._special_tokens = special_tokens
        self._special_token_values = set(special_tokens.values())
        self._tokenizer = tokenizer
        self._special = SpecialTokens(special_tokens, tokenizer.special_tokens)
        self._encoder: ListEncoder | None = None
        # What the usual calls come down to, once the compiled side is there.
        self._ordinary: Callable[[str], list[int]] = self._first_ordinary
        self._refusing: Callable[[str], list[int]] = self._first_refusing
        self._decode_list: DecodeList = self._first_decode_list

    def _start(self) -> "ListEncoder":
        """The compiled side, with what it has to do in the usual calls."""
        engine = self._tokenizer._start()
        from numbatok.lists import ListEncoder  # after Numba, which has to be imported with care

        if self._encoder is None:
            self._encoder = ListEncoder(engine, self.n_vocab)
        return self._encoder

    def _first_ordinary(self, text: str) -> list[int]:
        """The ids of a text that has ordinary text only."""
        self._ordinary = self._start().under((NOTHING, NOTHING))
        return self._ordinary(text)

    def _first_refusing(self, text: str) -> list[int]:
        """The ids of a text that may have no special token."""
        if self._special.finds_all:
            self._refusing = self._start().under((NOTHING, self._special.found))
        else:
            self._refusing = functools.partial(self._encode, allowed_special=NOTHING, disallowed_special=_ALL)
        return self._refusing(text)

    def _first_decode_list(self, tokens: object) -> bytes | None:
        """The bytes of a list of ids, or None."""
        self._decode_list = self._start().engine.decoder.list_decoders[False]
        return self._decode_list(tokens)

    def __repr__(self) -> str:
        return f"<Encoding {self.name!r}>"

    def __getstate__(self) -> object:
        from numbatok.compat.tiktoken.registry import ENCODINGS

        if self is ENCODINGS.get(self.name):
            return self.name
        return {
            "name": self.name,
            "pat_str": self._pat_str,
            "mergeable_ranks": self._mergeable_ranks,
            "special_tokens": self._special_tokens,
        }

    def __setstate__(self, state: Any) -> None:
        from numbatok.compat.tiktoken.registry import get_encoding

        if isinstance(state, str):
            self.__dict__ = get_encoding(state).__dict__
        else:
            self.__init__(**state)  # type: ignore[misc]

    # --- encoding ---

    def encode_ordinary(self, text: str) -> list[int]:
        """The ids of a text; special tokens in it are ordinary text.

        >>> encoding.encode_ordinary("hello world")
        [31373, 995]
        """
        return self._ordinary(text)

    def encode(
        self, text: str, *, allowed_special: Allowed = NOTHING, disallowed_special: Disallowed = _ALL
    ) -> list[int]:
        """The ids of a text.

        Special tokens of ``allowed_special`` (a set, or ``"all"``) become their ids. A text with one of
        ``disallowed_special`` in it (a collection, by default ``"all"`` that are not allowed) is a ValueError. Others
        are ordinary text. Lone surrogates become U+FFFD.

        >>> encoding.encode("hello <|endoftext|>", allowed_special="all")
        [31373, 220, 50256]
        >>> encoding.encode("<|endoftext|>", disallowed_special=())
        [27, 91, 437, 1659, 5239, 91, 29]
        """
        try:
            if allowed_special is NOTHING and disallowed_special is _ALL:
                return self._refusing(text)
            policy = self._special.for_kernel(allowed_special, disallowed_special)
            if policy is not None:
                return (self._encoder or self._start()).under(policy)(text)
        except DisallowedToken:
            pass
        return self._encode(text, allowed_special, disallowed_special)

    def encode_to_numpy(
        self, text: str, *, allowed_special: Allowed = NOTHING, disallowed_special: Disallowed = _ALL
    ) -> npt.NDArray[np.uint32]:
        """What :meth:`encode` gives, as an array of uint32; UnicodeEncodeError for lone surrogates, as in tiktoken."""
        if isinstance(text, str):
            engine = (self._encoder or self._start()).engine
            policy = self._special.for_kernel(allowed_special, disallowed_special)
            try:
                if policy is not None:
                    source = text if text.isascii() else text.encode()
                    return engine.encode(source, engine.actions(policy), "strict", False, None)
            except (DisallowedToken, UnicodeEncodeError):
                pass
        _check_text(text)
        refuse(text, self._special.strings(allowed_special, disallowed_special)[1])
        text.encode()
        return np.array(self._encode(text, allowed_special, disallowed_special), np.uint32)

    def encode_ordinary_batch(self, text: Iterable[str], *, num_threads: int | None = 8) -> list[list[int]]:
        """The ids of many texts, as :meth:`encode_ordinary` gives those of one; an error names the text's index.

        >>> encoding.encode_ordinary_batch(["hello world", "goodbye world"])
        [[31373, 995], [11274, 16390, 995]]
        """
        return self._encode_batch(list(text), (NOTHING, NOTHING), self.encode_ordinary, num_threads)

    def encode_batch(
        self,
        text: Iterable[str],
        *,
        num_threads: int | None = 8,
        allowed_special: Allowed = NOTHING,
        disallowed_special: Disallowed = _ALL,
    ) -> list[list[int]]:
        """The ids of many texts, as :meth:`encode` gives those of one; an error names the text's index."""
        policy = self._special.for_kernel(allowed_special, disallowed_special)
        allowed, refused = self._special.strings(allowed_special, disallowed_special)
        frozenset(disallowed_special)  # raises for what is no collection, which a call of one text passes over

        def encode(document: str) -> list[int]:
            return self.encode(document, allowed_special=allowed, disallowed_special=refused)

        return self._encode_batch(list(text), policy, encode, num_threads)

    def encode_with_unstable(
        self, text: str, *, allowed_special: Allowed = NOTHING, disallowed_special: Disallowed = _ALL
    ) -> tuple[list[int], list[list[int]]]:
        """(ids, completions): the ids that stay however the text goes on, and what may come after them.

        Each completion is ids whose bytes begin with the rest of the text, up to the id that reaches its end. They come
        in no particular order. UnicodeEncodeError for lone surrogates, as in tiktoken.

        >>> ids, completions = encoding.encode_with_unstable("hello fanta")
        >>> all(encoding.decode(ids + ids_after).startswith("hello fanta") for ids_after in completions)
        True
        """
        _check_text(text)
        allowed, refused = self._special.strings(allowed_special, disallowed_special)
        refuse(text, refused)
        text.encode()
        segments = list(self._special.segments(text, self._special.permitted(allowed)))
        ids: list[int] = []
        for segment, special in segments:
            ids += self.encode_ordinary(segment)
            if special is not None:
                ids.append(special)
        last, _ = segments[-1]
        stable = len(ids) - self._unstable_ids(ids, last)
        unstable = b"".join(map(self._bytes_of.__getitem__, ids[stable:]))
        return ids[:stable], self._completions.of(unstable)

    def encode_single_token(self, text_or_bytes: str | bytes) -> int:
        """The id of the token with this text, special or not; KeyError where there is none.

        >>> encoding.encode_single_token("hello")
        31373
        """
        token = text_or_bytes.encode() if isinstance(text_or_bytes, str) else text_or_bytes
        if not isinstance(token, bytes):
            raise TypeError(f"a token must be str or bytes, not {type(token).__name__}")
        id = self._mergeable_ranks.get(token)
        if id is None:
            id = self._special_tokens.get(token.decode(errors="surrogateescape"))  # none has a surrogate
        if id is None:
            raise KeyError(token)
        return id

    # --- decoding ---

    def decode_bytes(self, tokens: Sequence[int]) -> bytes:
        """The bytes of ids: of a list, or another sequence or array.

        Raises KeyError for an id that is not in the vocabulary, OverflowError for one that is negative or at least
        2^32, and TypeError for what is no sequence of integers.

        >>> encoding.decode_bytes([31373, 995])
        b'hello world'
        """
        if type(tokens) is list and (data := self._decode_list(tokens)) is not None:
            return data
        ids = _as_array(tokens)
        if not ids:
            return b""
        try:
            return self._tokenizer.decode_bytes(np.frombuffer(ids, np.uint32))
        except ValueError:
            place, unknown = next((i, id) for i, id in enumerate(ids) if id not in self._bytes_of)
            raise KeyError(f"Invalid token for decoding: {unknown}, at position {place}") from None

    def decode(self, tokens: Sequence[int], errors: str = "replace") -> str:
        """The text of ids: that of :meth:`decode_bytes`, decoded as UTF-8; ``errors`` as in ``bytes.decode``.

        >>> encoding.decode([31373, 995])
        'hello world'
        """
        data = self._decode_list(tokens) if type(tokens) is list else None
        return (self.decode_bytes(tokens) if data is None else data).decode("utf-8", errors)

    def decode_single_token_bytes(self, token: int) -> bytes:
        """The bytes of one id, special or not; exceptions as of :meth:`decode_bytes`.

        >>> encoding.decode_single_token_bytes(31373)
        b'hello'
        """
        found = self._bytes_of.get(token) if type(token) is int else None
        return self.decode_bytes([token]) if found is None else found

    def decode_tokens_bytes(self, tokens: Iterable[int]) -> list[bytes]:
        """The bytes of each id.

        >>> encoding.decode_tokens_bytes([31373, 995])
        [b'hello', b' world']
        """
        return [self.decode_single_token_bytes(token) for token in tokens]

    def decode_with_offsets(self, tokens: Iterable[int]) -> tuple[str, list[int]]:
        """(text, offsets): the text of ids, and for each the index of the first character that has bytes of it.

        Raises UnicodeDecodeError where the bytes are not UTF-8.

        >>> encoding.decode_with_offsets([31373, 995])
        ('hello world', [0, 5])
        """
        contents = self.decode_tokens_bytes(tokens)
        begun = 0  # characters
        offsets = []
        for content in contents:
            offsets.append(max(0, begun - (content[0] in _CONTINUATION)))
            begun += len(content.translate(None, _CONTINUATION))
        return b"".join(contents).decode(), offsets

    def decode_batch(
        self, batch: Iterable[Sequence[int]], *, errors: str = "replace", num_threads: int | None = 8
    ) -> list[str]:
        """The texts of many sequences of ids; an error names the index of the one that it is about."""
        return _for_each(list(batch), lambda ids: self.decode(ids, errors), num_threads)

    def decode_bytes_batch(self, batch: Iterable[Sequence[int]], *, num_threads: int | None = 8) -> list[bytes]:
        """The bytes of many sequences of ids; an error names the index of the one that it is about."""
        return _for_each(list(batch), self.decode_bytes, num_threads)

    # --- vocabulary ---

    def token_byte_values(self) -> list[bytes]:
        """The bytes of all tokens that are not special, sorted."""
        return sorted(self._mergeable_ranks)

    @property
    def eot_token(self) -> int:
        """The id of ``<|endoftext|>``; KeyError where there is none."""
        return self._special_tokens["<|endoftext|>"]

    @functools.cached_property
    def special_tokens_set(self) -> set[str]:
        """The special tokens."""
        return set(self._special_tokens)

    def is_special_token(self, token: int) -> bool:
        """Whether an id is a special token's; AssertionError for what is no ``int``."""
        if not isinstance(token, int):
            raise AssertionError(f"an id must be an int, not {type(token).__name__}")
        return token in self._special_token_values

    @property
    def n_vocab(self) -> int:
        """One more than the largest id."""
        return self.max_token_value + 1

    # --- inside ---

    @functools.cached_property
    def _mergeable_ranks(self) -> dict[bytes, int]:
        """The rank of each token; made on demand for an encoding from inside the package."""
        return self._tokenizer._parts.vocabulary.id_of

    @functools.cached_property
    def _bytes_of(self) -> dict[int, bytes]:
        """The bytes of each id. Of two special tokens with one id the first counts."""
        specials = {id: token.encode() for token, id in reversed(self._special_tokens.items())}
        return specials | {rank: token for token, rank in self._mergeable_ranks.items()}

    @functools.cached_property
    def _completions(self) -> Completions:
        return Completions(self._mergeable_ranks, self._bytes_of, self.encode_ordinary_batch)

    def _encode(self, text: str, allowed_special: Allowed, disallowed_special: Disallowed) -> list[int]:
        """:meth:`encode` a step at a time: refuse, repair, look for special tokens, encode what is between."""
        _check_text(text)
        allowed, refused = self._special.strings(allowed_special, disallowed_special)
        refuse(text, refused)
        permitted = self._special.permitted(allowed)
        ids: list[int] = []
        for segment, special in self._special.segments(repair_surrogates(text), permitted):
            ids += self.encode_ordinary(segment)
            if special is not None:
                ids.append(special)
        return ids

    def _encode_batch(
        self,
        documents: list[str],
        policy: Policy | None,
        encode: Callable[[str], list[int]],
        num_threads: int | None,
    ) -> list[list[int]]:
        """The ids of documents: at once by the kernel's policy, or one by one by ``encode``."""
        if policy is not None and set(map(type, documents)) == {str}:
            _check_threads(num_threads)
            allowed, refused = policy
            try:
                threads = get_num_threads() if num_threads is None else min(int(num_threads), get_num_threads())
                batch = self._tokenizer.encode_batch(
                    documents, allowed_special=allowed, disallowed_special=refused, num_threads=threads
                )
                return (self._encoder or self._start()).lists_of(batch)
            except ValueError:
                pass  # raised again, about the same document, in tiktoken's words
        return _for_each(documents, encode, num_threads)

    def _unstable_ids(self, ids: list[int], last: str) -> int:
        """How many of the ids at the end may change as the text goes on: those of the last piece of ``last``.

        White space before it comes along: cl100k's pattern joins it across pieces.
        """
        size = last_piece(self._tokenizer, last)
        count = 0
        while size > 0:
            count += 1
            size -= len(self._bytes_of[ids[-count]])
        ordinary = self._tokenizer._parts.vocabulary.token_of

        def is_space(id: int) -> bool:
            return not ordinary.get(id, b"x").strip(b" \n\t")

        if count and is_space(ids[-count]):
            while count < len(ids) and is_space(ids[-count - 1]):
                count += 1
        return count

    def _encode_single_piece(self, text_or_bytes: str | bytes) -> list[int]:
        """The ids of what is taken as one piece, without a look at the pattern or special tokens."""
        piece = text_or_bytes.encode() if isinstance(text_or_bytes, str) else text_or_bytes
        rank = self._mergeable_ranks.get(piece)
        return merge_bytes(piece, self._mergeable_ranks) if rank is None else [rank]

    def _encode_bytes(self, text: bytes) -> list[int]:
        """The ids of bytes that need not be UTF-8: what is not is merged with the last piece before it."""
        try:
            return self.encode_ordinary(text.decode())
        except UnicodeDecodeError as error:
            valid = text[: error.start].decode()
            ids = self.encode_ordinary(valid)
            stable = len(ids) - self._unstable_ids(ids, valid)
            rest = b"".join(map(self._bytes_of.__getitem__, ids[stable:])) + text[error.start :]
            return ids[:stable] + self._encode_single_piece(rest)


_CONTINUATION = bytes(range(0x80, 0xC0))


def _check_text(text: object) -> None:
    if not isinstance(text, str):
        raise TypeError(f"text must be str, not {type(text).__name__}")


def _as_array(tokens: Any) -> "array[int]":
    """Ids of a sequence; TypeError or OverflowError for what are none."""
    if isinstance(tokens, str | Mapping) or not hasattr(tokens, "__getitem__") or not hasattr(tokens, "__len__"):
        raise TypeError(f"ids must be a sequence of integers, not {type(tokens).__name__}")
    return array("I", tokens.tolist() if isinstance(tokens, np.ndarray) else list(tokens))


def _check_threads(num_threads: int | None) -> None:
    """ValueError for a number of threads that no pool can have."""
    if num_threads is not None and num_threads <= 0:
        raise ValueError(f"num_threads must be greater than 0, not {num_threads}")


def _for_each(documents: list[Any], call: Callable[[Any], _Result], num_threads: int | None) -> list[_Result]:
    """The result of a call for each document; an exception says for which it was raised."""
    _check_threads(num_threads)
    results = []
    for index, document in enumerate(documents):
        try:
            results.append(call(document))
        except (TypeError, ValueError, KeyError, OverflowError) as error:
            if isinstance(error, UnicodeError):  # has arguments of its own
                raise
            raise type(error)(f"{error.args[0] if error.args else ''} (index {index} of the batch)") from None
    return results

"""Added tokens: strings with an id of their own, found in the text before it is split; and who may use them."""

import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal

import numpy as np

from numbatok.errors import VocabularyError
from numbatok.kernels import dtypes

MOST_NODES = 1 << 24  # kernels.added: a trie's node takes 24 bits of an edge

AllowedSpecial = Literal["all"] | AbstractSet[str] | Collection[str]


@dataclass(frozen=True)
class AddedToken:
    """A string that becomes one id wherever it stands in a text.

    ``special`` ones (``<|endoftext|>``) steer a model: ``allowed_special`` and ``disallowed_special`` decide whether
    a text may hold them, and decoding can leave them out. The others always count.

    Attributes
    ----------
    lstrip, rstrip : whether the token takes the white space before, or after, it along
    single_word : whether it counts only where no word character (``\\w``) stands beside it
    normalized : whether it is looked for in the normalized text, by its own normalized content, after those that are
        looked for in the text as it is

    >>> numbatok.get_encoding("gpt2").added_tokens[0].content
    '<|endoftext|>'
    """

    content: str
    id: int
    special: bool = True
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False
    normalized: bool = False

    @property
    def flags(self) -> int:
        """The flags that kernels look at, as bits."""
        return (
            dtypes.ADDED_LSTRIP * self.lstrip
            | dtypes.ADDED_RSTRIP * self.rstrip
            | dtypes.ADDED_SINGLE_WORD * self.single_word
        )


class Trie:
    """The strings of added tokens as a trie over bytes.

    Attributes
    ----------
    edges : uint32[edges, 3], rows (node, byte, next node); the root is 0
    token_at_node : int32[nodes], the index of the added token that ends at a node, or -1
    """

    def __init__(self, contents: Mapping[bytes, int]) -> None:
        children: dict[tuple[int, int], int] = {}
        at_node = [-1]
        for content, index in contents.items():
            node = 0
            for byte in content:
                following = children.get((node, byte))
                if following is None:
                    following = children[node, byte] = len(at_node)
                    at_node.append(-1)
                node = following
            at_node[node] = index
        if len(at_node) >= MOST_NODES:
            raise VocabularyError(f"added tokens of {len(at_node)} bytes; at most {MOST_NODES} are supported")
        edges = [(node, byte, following) for (node, byte), following in children.items()]
        self.edges = np.array(edges, np.uint32).reshape(-1, 3)
        self.token_at_node = np.array(at_node, np.int32)
        self._contents = list(contents)

    def leads(self) -> list[int]:
        """How strings begin, for :data:`dtypes.TRIE_LEAD`: each first byte, with the last byte that all of them share.

        The second byte tells two blanks from one, or a character from others of its script: most first bytes in a text
        are not followed by it.
        """
        shared: dict[int, bytes] = {}
        for content in self._contents:
            prefix = content[: dtypes.MOST_LEAD_OFFSET + 1]
            before = shared.get(content[0], prefix)
            same = 0
            while same < min(len(before), len(prefix)) and before[same] == prefix[same]:
                same += 1
            shared[content[0]] = prefix[:same]
        return [first | (len(prefix) - 1) << 8 | prefix[-1] << 16 for first, prefix in sorted(shared.items())]


class AddedTokens(Sequence[AddedToken]):
    """The added tokens of a tokenizer, in order of their ids."""

    def __init__(self, tokens: Iterable[AddedToken]) -> None:
        self._tokens = tuple(sorted(tokens, key=lambda token: token.id))
        self.specials = {token.content: token.id for token in self._tokens if token.special}
        seen: dict[str, int] = {}
        for token in self._tokens:
            if not token.content:
                raise VocabularyError(f"added token {token.id} is empty; it needs at least one character")
            if not 0 <= token.id < 1 << 32:
                raise VocabularyError(f"added token {token.content!r} has id {token.id}; ids are 0 to 2**32 - 1")
            if token.content in seen:
                raise VocabularyError(
                    f"added token {token.content!r} is given twice, with ids {seen[token.content]} and {token.id}"
                )
            seen[token.content] = token.id
            try:
                token.content.encode()
            except UnicodeEncodeError as error:
                raise VocabularyError(f"added token {token.content!r} has a lone surrogate: {error.reason}") from None

    def __len__(self) -> int:
        return len(self._tokens)

    def __getitem__(self, index: int) -> AddedToken:  # type: ignore[override]
        return self._tokens[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AddedTokens) and self._tokens == other._tokens

    def __hash__(self) -> int:
        return hash(self._tokens)

    def __reduce__(self) -> tuple[type["AddedTokens"], tuple[tuple[AddedToken, ...]]]:
        return AddedTokens, (self._tokens,)

    @functools.cached_property
    def id_of(self) -> dict[bytes, int]:
        """The id of each, by its UTF-8."""
        return {token.content.encode(): token.id for token in self._tokens}

    @functools.cached_property
    def content_of(self) -> dict[int, bytes]:
        """The UTF-8 of each, by its id; of two with one id the first."""
        return {token.id: token.content.encode() for token in reversed(self._tokens)}

    def extended(self, tokens: Iterable[AddedToken]) -> "AddedTokens":
        """These and more; one that is given again takes the place of the one with its content."""
        by_content = {token.content: token for token in self._tokens}
        by_content.update((token.content, token) for token in tokens)
        return AddedTokens(by_content.values())

    def some_specials(self) -> str:
        """The special tokens for an error: the first five, and how many more there are."""
        more = len(self.specials) - 5
        return (", ".join(map(repr, list(self.specials)[:5])) or "none") + (f" and {more} more" if more > 0 else "")

    def policy(self, allowed: AllowedSpecial, disallowed: AllowedSpecial) -> tuple[frozenset[str], frozenset[str]]:
        """(allowed, refused) special tokens from a call's two arguments; refused wins where both name one."""
        permitted = frozenset(self.specials) if allowed == "all" else self._named("allowed_special", allowed)
        if disallowed == "all":
            return permitted, frozenset(self.specials) - permitted
        return permitted, self._named("disallowed_special", disallowed)

    def _named(self, argument: str, given: object) -> frozenset[str]:
        """The given collection of special tokens as a set, or an error that says what is wrong with it."""
        if isinstance(given, str) or not isinstance(given, Collection):
            raise TypeError(f'{argument} must be "all" or a collection of special tokens, not {given!r}')
        for name in given:
            if not isinstance(name, str):
                raise TypeError(f"{argument} must hold special tokens, which are str, not {name!r}")
        names = frozenset(given)
        for name in names:
            if name not in self.specials:
                raise ValueError(
                    f"{argument} names {name!r}, which is not a special token of this tokenizer; it has "
                    f"{self.some_specials()}"
                )
        return names

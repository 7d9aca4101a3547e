r"""The readable oracle: byte-level BPE as one would explain it, with no thought for speed.

Every test that asks "are these ids right?" without a reference library asks this module. It shares nothing with the
package but the frozen Unicode table, which ``test_unicode.py`` compares with the references. In the order of a text's
way through it:

1. added tokens are cut out of the text (:meth:`Tokenizer.sections`);
2. what is between them is split into pretokens by GPT-2's rule (:func:`split`);
3. the bytes of each pretoken are merged (:func:`merge`), by a list of merges or by ranks;
4. the tokens' ids are looked up.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from numbatok.patterns import unicode

# --- splitting -------------------------------------------------------------------------------------------------------

_LETTERS, _NUMBERS, _SPACES = unicode.in_categories("L"), unicode.in_categories("N"), unicode.white_space()
CONTRACTIONS = ("'s", "'d", "'m", "'t", "'ll", "'ve", "'re")


def kind(character: str) -> str:
    r"""``"L"`` for ``\p{L}``, ``"N"`` for ``\p{N}``, ``"s"`` for ``\s``, ``"o"`` for any other character.

    >>> [kind(c) for c in "a½\u3000'"]
    ['L', 'N', 's', 'o']
    """
    point = ord(character)
    return "L" if _LETTERS[point] else "N" if _NUMBERS[point] else "s" if _SPACES[point] else "o"


def _end_of_run(text: str, start: int) -> int:
    """Where the characters of the same kind as ``text[start]`` end."""
    end = start
    while end < len(text) and kind(text[end]) == kind(text[start]):
        end += 1
    return end


def _end_of_pretoken(text: str, start: int) -> int:
    r"""Where the pretoken at ``text[start]`` ends: the first alternative of the pattern that matches there.

    ``'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+``
    """
    for contraction in CONTRACTIONS:
        if text.startswith(contraction, start):
            return start + len(contraction)
    # One U+0020 may stand before a run of anything but white space.
    first = start + 1 if text[start] == " " and start + 1 < len(text) else start
    if kind(text[first]) != "s":
        return _end_of_run(text, first)
    end = _end_of_run(text, start)
    # `\s+(?!\S)` gives the last character back when something follows, unless it is the only one: then `\s+` takes it.
    return end if end == len(text) or end == start + 1 else end - 1


def split(text: str) -> list[str]:
    """The pretokens of a text without added tokens; joined, they are the text.

    >>> split("I'll take  two\\n\\n")
    ['I', "'ll", ' take', ' ', ' two', '\\n\\n']
    """
    pretokens, position = [], 0
    while position < len(text):
        end = _end_of_pretoken(text, position)
        pretokens.append(text[position:end])
        position = end
    return pretokens


def boundaries(text: str) -> list[int]:
    """Where :func:`split` cuts, in bytes of UTF-8: 0, each pretoken's end."""
    edges = [0]
    for pretoken in split(text):
        edges.append(edges[-1] + len(pretoken.encode()))
    return edges


# --- merging ---------------------------------------------------------------------------------------------------------

#: The rank at which two neighbouring tokens merge, or None where they do not.
RankOf = Callable[[bytes, bytes], "int | None"]


def merge(pretoken: bytes, rank_of: RankOf) -> list[bytes]:
    """Merge the neighbours of lowest rank, the leftmost of equals, until no two merge.

    >>> merge(b"aaab", rank_of_merges([(b"a", b"a"), (b"a", b"b")]))
    [b'aa', b'ab']
    """
    tokens = [bytes([byte]) for byte in pretoken]
    ranks = [rank_of(*pair) for pair in pairwise(tokens)]
    while any(rank is not None for rank in ranks):
        lowest = min(rank for rank in ranks if rank is not None)
        i = ranks.index(lowest)
        tokens[i : i + 2] = [tokens[i] + tokens[i + 1]]
        # Only the pairs on either side of the new token have changed.
        del ranks[i]
        if i > 0:
            ranks[i - 1] = rank_of(tokens[i - 1], tokens[i])
        if i < len(ranks):
            ranks[i] = rank_of(tokens[i], tokens[i + 1])
    return tokens


def rank_of_merges(merges: Iterable[tuple[bytes, bytes]]) -> RankOf:
    """Hugging Face's rule: a pair's rank is its place in the list of merges, the last one of a pair that repeats."""
    place = {pair: rank for rank, pair in enumerate(merges)}
    return lambda left, right: place.get((left, right))


def rank_of_concatenation(rank: Mapping[bytes, int]) -> RankOf:
    """The rule of tiktoken: two tokens merge when they make a token, at its rank."""
    return lambda left, right: rank.get(left + right)


@dataclass
class Model:
    """The model of a ``tokenizer.json`` with any of its options, in the file's own strings and for its own strings.

    A unit is a character of the pretoken. Options as ``tokenizers.models.BPE`` names them.
    """

    id_of: Mapping[str, int]
    merges: Sequence[tuple[str, str]]
    unk_token: str | None = None
    fuse_unk: bool = False
    byte_fallback: bool = False
    continuing_subword_prefix: str | None = None
    end_of_word_suffix: str | None = None
    ignore_merges: bool = False

    def units(self, pretoken: str) -> list[str]:
        """The tokens that merging begins with.

        >>> Model({"a": 0, "b</w>": 1, "?": 2}, [], unk_token="?", end_of_word_suffix="</w>").units("axab")
        ['a', '?', 'a', 'b</w>']
        """
        tokens: list[str] = []
        waiting = 0  # unknown tokens not yet put out: one that has tokens for its bytes overtakes them
        for place, character in enumerate(pretoken):
            unit = character
            if place > 0:
                unit = (self.continuing_subword_prefix or "") + unit
            if place == len(pretoken) - 1:
                unit += self.end_of_word_suffix or ""
            spelled = [f"<0x{byte:02X}>" for byte in unit.encode()]
            if unit in self.id_of:
                tokens += [self.unk_token or ""] * waiting + [unit]
                waiting = 0
            elif self.byte_fallback and all(token in self.id_of for token in spelled):
                tokens += spelled
            elif self.unk_token is not None:
                if waiting and not self.fuse_unk:
                    tokens.append(self.unk_token)
                waiting = 1
        return tokens + [self.unk_token or ""] * waiting

    def encode(self, pretoken: str) -> list[int]:
        """Ids of one pretoken."""
        if self.ignore_merges and pretoken in self.id_of:
            return [self.id_of[pretoken]]
        place = {pair: rank for rank, pair in enumerate(self.merges)}
        tokens = self.units(pretoken)
        while mergeable := [pair for pair in pairwise(tokens) if pair in place]:
            lowest = min(mergeable, key=place.__getitem__)
            i = list(pairwise(tokens)).index(lowest)
            tokens[i : i + 2] = [tokens[i] + tokens[i + 1][len(self.continuing_subword_prefix or "") :]]
        return [self.id_of[token] for token in tokens]


# --- the whole -------------------------------------------------------------------------------------------------------


@dataclass
class Tokenizer:
    """The whole, from text to ids and back.

    ``added`` maps the added tokens, all of them special, to their ids.
    """

    id_of: Mapping[bytes, int]
    rank_of: RankOf
    whole_first: bool
    added: Mapping[str, int] = field(default_factory=dict)
    _known: dict[bytes, list[int]] = field(default_factory=dict)

    @classmethod
    def from_ranks(cls, tokens: Sequence[bytes], added: Mapping[str, int] | None = None) -> "Tokenizer":
        """A rank file's tokenizer: a token's rank is its id."""
        rank = {token: number for number, token in enumerate(tokens)}
        return cls(rank, rank_of_concatenation(rank), True, added or {})

    @classmethod
    def from_merges(
        cls,
        id_of: Mapping[bytes, int],
        merges: Iterable[tuple[bytes, bytes]],
        added: Mapping[str, int] | None = None,
        *,
        whole_first: bool = False,
    ) -> "Tokenizer":
        """A ``tokenizer.json``'s tokenizer."""
        return cls(id_of, rank_of_merges(merges), whole_first, added or {})

    def sections(self, text: str, allowed: Collection[str]) -> list[tuple[str, bool]]:
        """The text cut at its allowed added tokens: (section, whether it is such a token).

        The leftmost added token counts, of those that begin at one place the longest. One that is not allowed is text:
        the search goes on one character later, so that it hides what begins with it but not what begins inside it.
        """
        sections, begin, position = [], 0, 0
        firsts = {token[0] for token in self.added}
        while position < len(text):
            if text[position] not in firsts:
                position += 1
                continue
            found = max((token for token in self.added if text.startswith(token, position)), key=len, default="")
            if found in allowed:
                sections += [(text[begin:position], False), (found, True)]
                position = begin = position + len(found)
            else:
                position += 1
        return [*sections, (text[begin:], False)]

    def encode_pretoken(self, pretoken: bytes) -> list[int]:
        """Ids of one pretoken."""
        if pretoken not in self._known:
            whole = self.whole_first and pretoken in self.id_of
            tokens = [pretoken] if whole else merge(pretoken, self.rank_of)
            self._known[pretoken] = [self.id_of[token] for token in tokens]
        return self._known[pretoken]

    def encode(self, text: str, allowed: Collection[str] | None = None) -> list[int]:
        """Ids of a text; the added tokens in ``allowed`` (all, if not given) become their ids."""
        ids = []
        for section, is_added in self.sections(text, self.added.keys() if allowed is None else allowed):
            if is_added:
                ids.append(self.added[section])
            else:
                for pretoken in split(section):
                    ids += self.encode_pretoken(pretoken.encode())
        return ids

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """The bytes of ids."""
        token_of = {id: token for token, id in self.id_of.items()}
        token_of |= {id: content.encode() for content, id in self.added.items()}
        return b"".join(token_of[id] for id in ids)

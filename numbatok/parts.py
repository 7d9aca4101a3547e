"""What a tokenizer is made of: loaders make these parts, :class:`numbatok.Tokenizer` runs them."""

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from numbatok.added_tokens import AddedToken, AddedTokens
from numbatok.decoders import Decoder
from numbatok.errors import VocabularyError
from numbatok.loading import byte_level
from numbatok.loading.components import flat
from numbatok.normalizers import Normalizer
from numbatok.patterns.rules import PatternEngine, SplitRule
from numbatok.templates import PLAIN, Template, Trim
from numbatok.vocabulary import Vocabulary


@dataclass(frozen=True)
class Parts:
    """The parts of a tokenizer, in the order in which a text meets them, all immutable.

    Attributes
    ----------
    added_tokens : found first: those with ``normalized=False`` in the raw text, the others after normalizing
    normalizer : changes the text between raw added tokens; None changes nothing
    prefix_space : whether U+0020 is put before each text between added tokens that does not begin with it
    rule : cuts what is left into pretokens
    vocabulary : merges a pretoken into tokens
    template : the special tokens around a text, and those of a pair
    trims : what of the text is left out of tokens' offsets, one trim after the other
    decoder : what makes a text of tokens that are not bytes; empty where the bytes of tokens are the text's
    unreachable : (id, bytes) of tokens that no text becomes, which decoding alone knows: those that a file with a byte
        alphabet spells without it, and the empty one
    name : what the tokenizer was loaded as, not part of its content
    settings : the JSON of the file's sections that :meth:`Tokenizer.save` writes back as they came (normalizer,
        pre_tokenizer, post_processor, decoder), or None where they are made from the parts; not part of its content
    pattern_engine : ``"automaton"``, or ``"regex"`` where the package ``regex`` may run a rule that no automaton can
    """

    vocabulary: Vocabulary
    added_tokens: AddedTokens
    rule: SplitRule
    normalizer: Normalizer | None = None
    prefix_space: bool = False
    template: Template = PLAIN
    trims: tuple[Trim, ...] = ()
    decoder: Decoder = ()
    unreachable: tuple[tuple[int, bytes], ...] = ()
    name: str = field(default="", compare=False)
    settings: str | None = field(default=None, compare=False)
    pattern_engine: PatternEngine = "automaton"

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}  # without what can be worked out again

    def token(self, number: int) -> bytes | None:
        """The bytes of an id, or None where there is no such id."""
        for contents in (self.added_tokens.content_of, self.vocabulary.token_of):
            if number in contents:
                return contents[number]
        return dict(self.unreachable).get(number)

    @functools.cached_property
    def sections(self) -> dict[str, Any]:
        """:attr:`settings`, read; empty where there are none."""
        return {} if self.settings is None else json.loads(self.settings)

    def _types_of(self, section: str) -> list[str]:
        """The types of the components in a section of :attr:`settings`, in order."""
        return [step["type"] for step in flat(self.sections.get(section), section, f"{section}s")]

    def sought(self, token: AddedToken) -> str:
        """What an added token is looked for as, by which `tokenizers` goes when it decodes."""
        if not token.normalized:
            return token.content
        sought = token.content if self.normalizer is None else self.normalizer.normalize(token.content)
        return byte_level.spell(sought.encode()) if "ByteLevel" in self._types_of("normalizer") else sought

    def check_added_tokens(self) -> None:
        """VocabularyError for an added token that normalizing leaves nothing of.

        `tokenizers` finds it between any two characters, and so cuts the text into them.
        """
        if self.normalizer is None:
            return
        for token in self.added_tokens:
            if token.normalized and not self.normalizer.normalize(token.content):
                raise VocabularyError(
                    f"added token {token.content!r} is to be found in the normalized text, but normalizing leaves "
                    "nothing of it, which is not supported; normalized=False finds it in the text as it is"
                )

    @functools.cached_property
    def decoded_added(self) -> list[tuple[int, bytes, bool]]:
        """(id, bytes, whether skipping special tokens skips it) of the added tokens, as decoding takes them.

        As in `tokenizers`, it is what a token is looked for as that is decoded: by a decoder ByteLevel to the bytes
        that its characters spell, if all are of the byte alphabet; and that is skipped if it is a special token.
        """
        spells = "ByteLevel" in self._types_of("decoder")
        specials = self.added_tokens.specials
        found = []
        for token in self.added_tokens:
            sought = self.sought(token)
            data = byte_level.to_bytes(sought) if spells else sought.encode()
            found.append((token.id, data, sought in specials))
        return found

    @functools.cached_property
    def skipped(self) -> frozenset[int]:
        """The ids that skipping special tokens skips."""
        return frozenset(number for number, _, is_skipped in self.decoded_added if is_skipped)

    @functools.cached_property
    def _decoded_of(self) -> dict[int, bytes]:
        return {number: data for number, data, _ in reversed(self.decoded_added)}

    def decoded(self, number: int) -> bytes | None:
        """The bytes that an id is decoded as, or None where there is no such id."""
        found = self._decoded_of.get(number)
        return self.token(number) if found is None else found

    @functools.cached_property
    def merged_added(self) -> dict[int, str]:
        """The added tokens, by id, that ordinary text can become by merging; hardly any vocabulary has one."""
        named = {token.id: token.content for token in self.added_tokens}
        symbols = np.flatnonzero(np.isin(self.vocabulary.ids, list(named)))
        if self.vocabulary.merges is not None and not self.vocabulary.whole_first:
            # Else any token can be a whole pretoken. A unit by itself is a token as well.
            made = np.isin(symbols, self.vocabulary.merges[:, 2]) | np.isin(symbols, self.vocabulary.units()[1])
            symbols = symbols[made]
        return {number: named[number] for number in self.vocabulary.ids[symbols].tolist()}

    @property
    def merged_specials(self) -> dict[int, str]:
        """Those of :attr:`merged_added` that are special."""
        special = self.added_tokens.specials
        return {number: content for number, content in self.merged_added.items() if content in special}

    @property
    def spell(self) -> Callable[[bytes], str]:
        """What gives a token of the vocabulary as a ``tokenizer.json`` writes it."""
        return byte_level.spell if self.vocabulary.options.unit == "byte" else bytes.decode

    def spelled_ids(self) -> dict[str, int]:
        """The id of each token as a ``tokenizer.json`` writes it: in order of symbols, then the unreachable ones."""
        spelled = zip(map(self.spell, self.vocabulary.tokens), self.vocabulary.ids.tolist(), strict=True)
        return dict(spelled) | {content.decode(): number for number, content in self.unreachable}

    def model_size(self) -> int:
        """How many tokens the model has: those of the vocabulary, the unreachable ones, and added ones of its own."""
        size = len(self.vocabulary) + len(self.unreachable)
        for token in self.added_tokens:  # by their ids; those that the model does not have come after all of its own
            size += token.id < size and self.id_of_string(token.content) is None
        return size

    def id_of_string(self, string: str) -> int | None:
        """The id of the token that a ``tokenizer.json`` spells so (``"Ġthe"`` for the bytes of " the"), or None."""
        data = string.encode("utf-8", "surrogatepass")
        if self.vocabulary.options.unit == "byte":
            if not set(string) <= byte_level.byte_of_character().keys():
                return next((number for number, content in self.unreachable if content == data), None)
            data = byte_level.to_bytes(string)
        return self.vocabulary.id_of.get(data)

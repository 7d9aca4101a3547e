"""What encodings need to know of a tokenizer besides what :class:`numbatok.Tokenizer` says: names of ids, steps."""

import functools
import json
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from numbatok.calls import Call
from numbatok.compat.huggingface.columns import Columns
from numbatok.engine import Encoded as EngineEncoded
from numbatok.engine import Engine
from numbatok.ids import Ids, Offsets
from numbatok.lists import ListEncoder
from numbatok.loading import byte_level
from numbatok.offsets import trimmed_blanks
from numbatok.parts import Parts
from numbatok.templates import Special, Trim
from numbatok.tokenizer import Tokenizer


class Located(NamedTuple):
    """The ids of texts, none of a template among them, and what is known of each.

    Attributes
    ----------
    ids, edges : all ids, and where each text's begin
    offsets : int64[ids, 2], in characters, untrimmed
    words : int32[ids], the pretoken, added token or given word that each is of
    """

    ids: Ids
    edges: Offsets
    offsets: npt.NDArray[np.int64]
    words: npt.NDArray[np.int32]


class Model:
    """A tokenizer of the core, with the tables that other interfaces need; it never changes."""

    def __init__(self, core: Tokenizer) -> None:
        self.core = core
        self.parts: Parts = core._parts

    @functools.cached_property
    def engine(self) -> Engine:
        """The compiled side."""
        return self.core._start()

    @functools.cached_property
    def lister(self) -> ListEncoder:
        """What makes lists of ids."""
        return ListEncoder(self.engine, self.core.vocab_size)

    @functools.cached_property
    def vocab(self) -> dict[str, int]:
        """The id of each token that is the model's own, by its spelling."""
        parts = self.parts
        spell = byte_level.spell if parts.vocabulary.options.unit == "byte" else bytes.decode
        names = map(spell, parts.vocabulary.tokens)
        vocab = dict(zip(names, parts.vocabulary.ids.tolist(), strict=True))
        vocab |= {content.decode(): number for number, content in parts.unreachable}
        missing = parts.model_size() - len(vocab)
        if missing > 0:  # added tokens that the file's vocabulary has, which stand apart from those a text can become
            own = {token.content: token.id for token in parts.added_tokens if token.content not in vocab}
            vocab |= dict(list(own.items())[:missing])
        return vocab

    @functools.cached_property
    def full_vocab(self) -> dict[str, int]:
        """The id of each token, added ones among them."""
        return self.vocab | {token.content: token.id for token in self.parts.added_tokens}

    @functools.cached_property
    def names(self) -> dict[int, str]:
        """The spelling of each id."""
        names = {number: name for name, number in self.vocab.items()}
        return names | {token.id: token.content for token in reversed(self.parts.added_tokens)}

    @functools.cached_property
    def _varying(self) -> frozenset[int]:
        """Ids of added tokens whose string in a text may be another: with white space around, or normalized."""
        return frozenset(
            token.id
            for token in self.parts.added_tokens
            if token.lstrip or token.rstrip or (token.normalized and self.parts.normalizer is not None)
        )

    @functools.cached_property
    def _processors(self) -> frozenset[str]:
        """The types of the post-processors."""
        if self.parts.settings is None:
            return frozenset({"ByteLevel"})  # as Tokenizer.save writes it
        found: set[str] = set()
        left = [json.loads(self.parts.settings)["post_processor"]]
        while left:
            step = left.pop()
            if step is not None:
                found.add(step["type"])
                left += step.get("processors", ())
        return frozenset(found)

    def specials_added(self, is_pair: bool) -> int:
        """How many special tokens the template puts around a text, or a pair."""
        return sum(len(block) for block in self.engine.frame(is_pair, True).blocks if block is not None)

    def actions(self, specials_as_text: bool) -> npt.NDArray[np.uint8]:
        """What is done at each added token."""
        if not specials_as_text:
            return self.engine.everything_allowed
        return self.engine.actions(self.parts.added_tokens.policy((), ()))

    # --- ids and all about them ---

    def encode(self, texts: list[str], specials_as_text: bool) -> EngineEncoded:
        """The ids of texts, without a template."""
        return self.engine.encode_batch(texts, None, Call(self.actions(specials_as_text), "strict", None))

    def locate(self, texts: list[str], specials_as_text: bool, encoded: EngineEncoded | None = None) -> Located:
        """All about the ids of texts."""
        encoded = encoded or self.encode(texts, specials_as_text)
        words = np.zeros(len(encoded.ids), np.int32)
        actions = self.actions(specials_as_text)
        offsets = self.engine.locator.locate(encoded, texts, None, "char", actions, trimmed=False, words=words)
        return Located(encoded.ids.astype(np.uint32, copy=False), encoded.offsets, offsets, words)

    def columns(self, located: Located, row: int, texts: Sequence[str], type_id: int) -> Columns:
        """The fields of one text's encoding, before truncation; ``texts`` are its words, or itself."""
        begin, end = int(located.edges[row]), int(located.edges[row + 1])
        ids = located.ids[begin:end].tolist()
        offsets = list(map(tuple, located.offsets[begin:end].tolist()))
        words = located.words[begin:end].tolist()
        tokens = list(map(self.names.__getitem__, ids))
        if self._varying and not self._varying.isdisjoint(ids):
            for place, number in enumerate(ids):
                if number in self._varying:
                    start, stop = offsets[place]
                    tokens[place] = self._string_of(number, texts[words[place] if len(texts) > 1 else 0][start:stop])
        count = len(ids)
        return Columns(ids, [type_id] * count, tokens, words, offsets, [0] * count, [1] * count)

    def _string_of(self, number: int, found: str) -> str:
        """The string of an added token as it stands in a text."""
        normalizer = self.parts.normalizer
        for token in self.parts.added_tokens:
            if token.id == number and token.normalized and normalizer is not None:
                return normalizer.normalize(found)
        return found

    # --- post-processing ---

    def process(self, first: Columns, second: Columns | None, special: bool) -> Columns:
        """One encoding from a text's, or those of a pair, in the template. The given ones are used up."""
        sides = [first] if second is None else [first, second]
        if not self._processors:
            if second is None:
                return first
            first.set_sequence(0)
            second.set_sequence(1)
            return _merged(sides)
        for number, side in enumerate(sides):
            side.type_ids = [number] * len(side)
            for each in (side, *side.overflowing):
                each.set_sequence(number)
        frame = self.engine.frame(second is not None, special)
        has_specials = any(isinstance(piece, Special) for piece in frame.pieces)
        for trim in self.parts.trims:
            for which, side in zip("AB", sides, strict=False):
                for each in (side, *side.overflowing):
                    _trim(each, trim, has_specials and which in trim.behind)
        parts = []
        for piece in frame.pieces:
            if isinstance(piece, Special):
                names = [self.names.get(number, piece.token) for number in piece.ids]
                parts.append(Columns.of_specials(list(piece.ids), piece.type_id, names))
                continue
            side = sides["AB".index(piece.which)].copy()
            side.type_ids = [piece.type_id] * len(side)
            if "RobertaProcessing" in self._processors:
                for each in side.overflowing:
                    each.type_ids = [piece.type_id] * len(each)
            parts.append(side)
        return _merged(parts)


def _merged(parts: list[Columns]) -> Columns:
    merged = Columns.empty()
    for part in parts:
        merged.merge(part)
    return merged


def _trim(columns: Columns, trim: Trim, is_behind: bool) -> None:
    """Leave blanks at the ends of tokens out of their offsets; see ``kernels.offsets.trim_offsets``."""
    blanks = trimmed_blanks()
    for place, token in enumerate(columns.tokens):
        before = len(token) - len(token.lstrip(blanks))
        behind = len(token) - len(token.rstrip(blanks))
        if not before | behind:
            continue
        start, stop = columns.offsets[place]
        if before:
            is_first = (place == 0 and not is_behind) or start == 0
            if is_first and trim.keeps_first and before == 1:
                before = 0
            start = min(start + before, stop)
        if behind and stop >= behind:
            stop = max(stop - behind, start)
        columns.offsets[place] = start, stop

"""What encodings need to know of a tokenizer besides what :class:`numbatok.Tokenizer` says: names of ids, steps."""

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from numbatok.byte_decoder import DecodeList
from numbatok.calls import Call
from numbatok.compat.huggingface.columns import Columns
from numbatok.compat.huggingface.inputs import as_ids
from numbatok.engine import Encoded, Engine
from numbatok.ids import Ids, Offsets
from numbatok.lists import ListEncoder
from numbatok.loading.components import flat
from numbatok.offset_tables import trimmed_blanks
from numbatok.parts import Parts
from numbatok.templates import Piece, Special, Text
from numbatok.text import WELL_FORMED
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


_TRIMMING = ("ByteLevel", "RobertaProcessing")


class _Processor(NamedTuple):
    """A post-processor: its type, and whether it trims offsets, and how."""

    kind: str
    trims: bool = False
    keeps_first: bool = True


class Model:
    """A tokenizer of the core, with the tables that other interfaces need; it never changes."""

    def __init__(self, core: Tokenizer) -> None:
        self.core = core
        self.parts: Parts = core._parts
        self._short_encoders: dict[tuple[bool, bool], Callable[[str], list[int]] | None] = {}

    @functools.cached_property
    def engine(self) -> Engine:
        """The compiled side."""
        return self.core._start()

    @functools.cached_property
    def lister(self) -> ListEncoder:
        """What makes lists of ids."""
        return ListEncoder(self.engine, self.core.vocab_size, WELL_FORMED)

    def short_encoder(self, special: bool, specials_as_text: bool) -> Callable[[str], list[int]] | None:
        """What gives the list of ids of one text, if nothing else is to be kept of it."""
        key = special, specials_as_text
        if key not in self._short_encoders:
            self._short_encoders[key] = self._make_short_encoder(special, specials_as_text)
        return self._short_encoders[key]

    def _make_short_encoder(self, special: bool, specials_as_text: bool) -> Callable[[str], list[int]] | None:
        frame = self.engine.frame(False, special)
        if self.parts.vocabulary.options.dropout or frame.types.any():
            return None
        if len(frame.pieces) == 1 and isinstance(frame.pieces[0], Text):
            return self.lister.under(self.parts.added_tokens.policy(() if specials_as_text else "all", ()))
        encode, actions = self.engine.encode, self.actions(specials_as_text)

        def encode_to_list(text: str) -> list[int]:
            ids: list[int] = encode(text, actions, WELL_FORMED, special, None).tolist()
            return ids

        return encode_to_list

    @functools.cached_property
    def vocab(self) -> dict[str, int]:
        """The id of each token that is the model's own, by its spelling."""
        parts = self.parts
        vocab = parts.spelled_ids()
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
        return names | {token.id: self.parts.sought(token) for token in reversed(self.parts.added_tokens)}

    @functools.cached_property
    def _varying(self) -> frozenset[int]:
        """Ids of added tokens whose string in a text may be another: with white space around."""
        return frozenset(token.id for token in self.parts.added_tokens if token.lstrip or token.rstrip)

    @functools.cached_property
    def _processors(self) -> tuple["_Processor", ...]:
        """The post-processors, in order."""
        if self.parts.settings is None:
            return (_Processor("TemplateProcessing"),)
        return tuple(
            _Processor(
                step["type"],
                step["type"] in _TRIMMING and step.get("trim_offsets", True),
                step.get("add_prefix_space", True),
            )
            for step in flat(self.parts.sections["post_processor"], "post_processor", "processors")
        )

    @functools.cached_property
    def _is_processed(self) -> bool:
        """Whether there is a post-processor at all; a Sequence of none is one."""
        return self.parts.settings is None or self.parts.sections["post_processor"] is not None

    @functools.cached_property
    def _names_in_templates(self) -> dict[str, list[str]]:
        """The strings of the special tokens that post-processors put around texts, by their names there."""
        found: dict[str, list[str]] = {}
        for step in flat(self.parts.sections.get("post_processor"), "post_processor", "processors"):
            found |= {name: token.get("tokens", []) for name, token in step.get("special_tokens", {}).items()}
            found |= {step[end][0]: [step[end][0]] for end in ("cls", "sep") if end in step}
        return found

    @functools.cached_property
    def counts_texts(self) -> bool:
        """Whether encodings have as many sequences as texts: a ByteLevel behind a template counts its pieces too."""
        kinds = [processor.kind for processor in self._processors]
        return "ByteLevel" not in kinds or len(kinds) == 1 or kinds[-1] != "ByteLevel"

    @property
    def following(self) -> int:
        """The id that ``tokenizers`` gives to the next token that is added."""
        return max([self.parts.model_size(), *(token.id + 1 for token in self.parts.added_tokens)])

    def specials_added(self, is_pair: bool) -> int:
        """How many special tokens the template puts around a text, or a pair."""
        return sum(len(block) for block in self.engine.frame(is_pair, True).blocks if block is not None)

    def actions(self, specials_as_text: bool) -> npt.NDArray[np.uint8]:
        """What is done at each added token."""
        if not specials_as_text:
            return self.engine.everything_allowed
        return self.engine.actions(self.parts.added_tokens.policy((), ()))

    # --- ids and all about them ---

    def encode(self, texts: list[str], specials_as_text: bool) -> Encoded:
        """The ids of texts, without a template."""
        return self.engine.encode_batch(texts, None, Call(self.actions(specials_as_text), WELL_FORMED, None))

    def locate(self, texts: list[str], specials_as_text: bool, encoded: Encoded | None = None) -> Located:
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
        token = next(token for token in self.parts.added_tokens if token.id == number)
        string, name = self.parts.sought(replace(token, content=found)), self.names[number]
        inner = name.strip()
        if string.strip() != inner:  # a part of a character's normal form, or a token of the model with the same id
            return name
        if not inner:
            return string
        before = string[: len(string) - len(string.lstrip())] if token.lstrip else name[: name.index(inner)]
        behind = string[len(string.rstrip()) :] if token.rstrip else name[name.index(inner) + len(inner) :]
        return before + inner + behind

    # --- decoding ---

    @functools.cached_property
    def joint(self) -> str | None:
        """What stands between the tokens' own strings in a decoded text; None where those are not what is joined.

        They are in a file with a byte alphabet whose decoder makes no bytes of it.
        """
        if self.parts.settings is None or self.parts.vocabulary.options.unit != "byte":
            return None
        decoder = self.parts.sections["decoder"]
        if decoder is None:
            return " "
        return None if any(step["type"] == "ByteLevel" for step in flat(decoder, "decoder", "decoders")) else ""

    @functools.cached_property
    def _list_decoders(self) -> tuple[DecodeList, DecodeList] | None:
        """What gives the bytes of a list of ids, if texts are made of bytes; the second skips special tokens."""
        return self.engine.decoder.list_decoders if self.joint is None and not self.parts.decoder else None

    @functools.cached_property
    def _known(self) -> Ids:
        return np.fromiter(self.names, np.uint32, len(self.names))

    def decode(self, ids: Any, skip_special_tokens: bool) -> str:
        """The text of ids; those that no token has are passed over. TypeError or OverflowError for what are none."""
        if type(ids) is list and (list_decoders := self._list_decoders) is not None:
            data = list_decoders[bool(skip_special_tokens)](ids)
            if data is not None:
                return data.decode("utf-8", "replace")
        array = as_ids(ids)
        if self.joint is not None:
            skipped = self.parts.skipped if skip_special_tokens else ()
            numbers = (number for number in array.tolist() if number not in skipped)
            return self.joint.join([self.names[number] for number in numbers if number in self.names])
        try:
            return self.core.decode(array, skip_special_tokens=skip_special_tokens)
        except ValueError:
            known = array[np.isin(array, self._known)]
            return self.core.decode(known, skip_special_tokens=skip_special_tokens)

    def decode_batch(self, sequences: Iterable[Any], skip_special_tokens: bool) -> list[str]:
        """The text of each sequence of ids."""
        arrays = [as_ids(ids) for ids in sequences]
        if self.joint is None:
            try:
                return self.core.decode_batch(arrays, skip_special_tokens=skip_special_tokens)
            except ValueError:
                pass  # for an id that no token has
        return [self.decode(ids, skip_special_tokens) for ids in arrays]

    # --- post-processing ---

    def process(self, first: Columns, second: Columns | None, special: bool) -> Columns:
        """One encoding from a text's, or those of a pair, in the template. The given ones are used up."""
        sides = [first] if second is None else [first, second]
        if not self._is_processed and second is None:
            return first
        for number, side in enumerate(sides):
            side.set_sequence(number)
            if self._is_processed:
                side.type_ids = [number] * len(side)
                for each in side.overflowing:
                    each.set_sequence(number)
        template = self.parts.template.single if second is None else self.parts.template.pair
        pieces = [piece for piece in template if special or not isinstance(piece, Special)]
        for processor in self._processors:
            if processor.trims:
                for side in sides:
                    for each in (side, *side.overflowing):
                        _trim(each, processor.keeps_first)
            if processor.kind == "ByteLevel":
                for number, side in enumerate(sides):
                    side.set_sequence(number)
            elif processor.kind == "TemplateProcessing":
                sides = [self._put(piece, sides) for piece in pieces]
            elif special:
                sides = self._put_around(pieces, sides, processor.kind == "RobertaProcessing")
            else:
                sides = [self._put(piece, sides) for piece in pieces]
        return _merged(sides)

    def _put(self, piece: Piece, sides: list[Columns]) -> Columns:
        """What stands in the place of a template's piece."""
        if isinstance(piece, Special):
            names = self._names_in_templates.get(piece.token, [])
            if len(names) != len(piece.ids):
                contents = self.parts.added_tokens.content_of
                names = [contents[id].decode() if id in contents else self.names[id] for id in piece.ids]
            return Columns.of_specials(list(piece.ids), piece.type_id, names)
        side = sides["AB".index(piece.which)].copy()
        side.type_ids = [piece.type_id] * len(side)
        return side

    def _put_around(self, pieces: list[Piece], sides: list[Columns], is_roberta: bool) -> list[Columns]:
        """The texts with the special tokens of each around them: one, or two as at the first piece of the second."""
        for number, side in enumerate(sides):
            for each in (side, *side.overflowing):
                each.ranges = {number: (0, len(each))}
                each.type_ids = [0] * len(each) if is_roberta else each.type_ids
        put = [self._put(piece, sides) for piece in pieces]
        if len(sides) == 1:
            return [_merged(put)]
        ends = 1 + next(number for number, piece in enumerate(pieces) if isinstance(piece, Text))
        ends += len(put) > len(sides)  # [CLS] A [SEP] and what follows
        return [_merged(put[:ends]), _merged(put[ends:])]


def _merged(parts: list[Columns]) -> Columns:
    merged = Columns.empty()
    for part in parts:
        merged.merge(part)
    return merged


def _trim(columns: Columns, keeps_first: bool) -> None:
    """Leave blanks at the ends of tokens out of their offsets; see ``kernels.offsets.trim_offsets``."""
    blanks = trimmed_blanks()
    for place, token in enumerate(columns.tokens):
        before = len(token) - len(token.lstrip(blanks))
        behind = len(token) - len(token.rstrip(blanks))
        if not before | behind:
            continue
        start, stop = columns.offsets[place]
        if before:
            if keeps_first and before == 1 and (place == 0 or start == 0):
                before = 0
            start = min(start + before, stop)
        if behind and stop >= behind:
            stop = max(stop - behind, start)
        columns.offsets[place] = start, stop

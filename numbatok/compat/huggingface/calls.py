"""What a call encodes, under the settings of its moment: the ids at once, all else when it is asked for."""

import functools
import threading
from typing import Any, NamedTuple

import numpy as np

from numbatok.calls import Call
from numbatok.compat.huggingface.columns import Columns, truncate_together
from numbatok.compat.huggingface.model import Located, Model
from numbatok.compat.huggingface.settings import Padding, Truncation
from numbatok.documents import Frame, types_of
from numbatok.engine import Encoded
from numbatok.ids import Ids, Offsets
from numbatok.text import WELL_FORMED
from numbatok.windows import Cut, TextIds, checked_cut, cut_texts, kept_lengths, texts_of_words

_AT_ONCE = 256  # rows whose lists of ids are made together


class Settings(NamedTuple):
    """All that a tokenizer's methods can change: replaced as a whole, so that a call sees one state of it."""

    model: Model
    padding: Padding | None = None
    truncation: Truncation | None = None
    specials_as_text: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether encodings are neither padded nor truncated."""
        return self.padding is None and self.truncation is None

    def cut(self, pairs: bool, overflow: bool = False) -> Cut | None:
        """The truncation as the core takes it."""
        how = self.truncation
        if how is None:
            return None
        if how.strategy == "only_second" and not pairs:
            return checked_cut(how.max_length, how.stride, "only_first", how.direction, overflow, pairs)
        return checked_cut(how.max_length, how.stride, how.strategy, how.direction, overflow, pairs)

    def truncate(self, first: Columns, second: Columns | None, special: bool) -> None:
        """Truncate what will become one encoding, special tokens of the template counted in."""
        how = self.truncation
        if how is None:
            return
        room = how.max_length - (self.model.specials_added(second is not None) if special else 0)
        if room < 0:
            raise ValueError(
                f"max_length is {how.max_length}, and the template alone puts {how.max_length - room} special tokens "
                "around a text; pass a larger one, or add_special_tokens=False"
            )
        truncate_together(first, second, room, how.stride, how.strategy, how.direction)


class Inputs:
    """The first, or the second, texts of a call: strings, or words of which each is encoded by itself."""

    def __init__(self, model: Model, texts: list[Any], is_words: bool, specials_as_text: bool) -> None:
        self.model, self.texts, self.is_words = model, texts, is_words
        self._specials_as_text = specials_as_text
        self.flat: list[str] = [word for words in texts for word in words] if is_words else texts

    @functools.cached_property
    def _edges(self) -> Offsets:
        """Where the words of each text begin among all."""
        edges = np.zeros(len(self.texts) + 1, np.int64)
        np.cumsum([len(words) for words in self.texts], out=edges[1:])
        return edges

    @functools.cached_property
    def encoded(self) -> Encoded:
        """The ids, without a template."""
        return self.model.encode(self.flat, self._specials_as_text)

    def cuttable(self) -> TextIds:
        """The ids as they are cut."""
        ids, offsets = self.encoded.ids, self.encoded.offsets
        if not self.is_words:
            return TextIds(ids, offsets)
        return texts_of_words(ids, offsets, self._edges)._replace(words=None)

    @functools.cached_property
    def located(self) -> Located:
        """All about the ids."""
        located = self.model.locate(self.flat, self._specials_as_text, self.encoded)
        if not self.is_words:
            return located
        texts = texts_of_words(located.ids, located.edges, self._edges)
        assert texts.words is not None
        return located._replace(edges=texts.offsets, words=texts.words)

    def columns(self, row: int, type_id: int) -> Columns:
        """The fields of one text's encoding."""
        texts: Any = self.texts[row] if self.is_words else [self.texts[row]]
        return self.model.columns(self.located, row, texts, type_id)


class Encodings:
    """The encodings of one call whose inputs are all texts, or all pairs."""

    def __init__(
        self,
        settings: Settings,
        firsts: list[Any],
        seconds: list[Any] | None,
        special: bool,
        is_words: bool,
    ) -> None:
        model = settings.model
        self._settings, self._special = settings, special
        self.first = Inputs(model, firsts, is_words, settings.specials_as_text)
        self.second = None if seconds is None else Inputs(model, seconds, is_words, settings.specials_as_text)
        self.width = 0  # that encodings are padded to
        self._lists: dict[int, list[int]] = {}
        self._lock = threading.Lock()
        try:
            self.ids, self.edges, self.types = self._encode()
        except UnicodeEncodeError as error:
            raise malformed(error) from None
        self._bounds: list[int] = self.edges.tolist()

    def _encode(self) -> tuple[Ids, Offsets, Ids | None]:
        """(ids, where each encoding's begin, type ids or None where all are 0), truncated, not padded."""
        settings, first, second = self._settings, self.first, self.second
        engine = settings.model.engine
        cut = settings.cut(second is not None)
        dropout = settings.model.parts.vocabulary.options.dropout
        if cut is None and not first.is_words and not dropout:
            actions = settings.model.actions(settings.specials_as_text)
            if second is None and len(first.flat) == 1 and not engine.frame(False, self._special).types.any():
                ids = engine.encode(first.flat[0], actions, WELL_FORMED, self._special, None)
                return ids, np.array([0, len(ids)], np.int64), None
            call = Call(actions, WELL_FORMED, self._special)
            encoded = engine.encode_batch(first.flat, None if second is None else second.flat, call)
            types = None
            if encoded.frame.types.any():
                types = types_of(encoded.frame, encoded.documents, encoded.ends)
            return encoded.ids.astype(np.uint32, copy=False), encoded.offsets, types
        if cut is None:
            cut = Cut(None, 0, "longest_first", "right", False)
        frame = engine.frame(second is not None, self._special)
        texts = first.cuttable()
        others = None if second is None else second.cuttable()
        strategy = None if settings.truncation is None else settings.truncation.strategy
        if second is None and strategy == "only_second":
            self._refuse_long(texts, cut)
        if cut.max_length is not None and cut.stride:
            self._check_stride(frame, texts, others, cut)
        batch = cut_texts(frame, texts, others, cut).batch
        if not dropout:  # whatever else is asked for is made from the texts again, which costs no memory till then
            for side in (first, second):
                if side is not None:
                    side.__dict__.pop("encoded", None)
        return batch.ids.astype(np.uint32, copy=False), batch.offsets, batch._type_ids

    def _refuse_long(self, texts: TextIds, cut: Cut) -> None:
        """ValueError for a text that is too long, where only second texts are cut and there are none."""
        assert cut.max_length is not None
        room = cut.max_length - (self._settings.model.specials_added(False) if self._special else 0)
        if room > 0 and (np.diff(texts.offsets) > room).any():
            raise ValueError('the truncation strategy "only_second" cuts second texts, and there is none')

    def _check_stride(self, frame: Frame, texts: TextIds, others: TextIds | None, cut: Cut) -> None:
        """ValueError where a text would be cut into windows that do not get on."""
        sides = {"A": texts} if others is None else {"A": texts, "B": others}
        lengths = {which: np.diff(side.offsets) for which, side in sides.items()}
        for which, kept in kept_lengths(frame, lengths, cut).items():
            wrong = (kept < lengths[which]) & (kept > 0) & (kept <= cut.stride)
            if wrong.any():
                row = int(np.argmax(wrong))
                raise ValueError(
                    f"stride must be smaller than the ids that truncation leaves of a text, not {cut.stride}: of "
                    f"{int(lengths[which][row])} ids {int(kept[row])} are left (max_length is {cut.max_length})"
                )

    def pad(self, longest: int) -> None:
        """Pad all encodings, where the settings say so, the longest of the call having so many ids."""
        if self._settings.padding is not None:
            self.width = self._settings.padding.width(longest)

    @property
    def longest(self) -> int:
        """Ids of the longest encoding."""
        return int(np.diff(self.edges).max(initial=0))

    def length_of(self, row: int) -> int:
        """Ids of an encoding, padding among them."""
        return max(self._bounds[row + 1] - self._bounds[row], self.width)

    def _filled(self, row: int, own: list[int], filling: int) -> list[int]:
        """A row with its padding."""
        missing = self.width - (self._bounds[row + 1] - self._bounds[row])
        if missing <= 0:
            return own
        assert self._settings.padding is not None
        padding = [filling] * missing
        return padding + own if self._settings.padding.direction == "left" else own + padding

    def ids_of(self, row: int) -> list[int]:
        """A new list of an encoding's ids."""
        own = self._lists.pop(row, None)
        if own is None:
            own = self._make_lists(row)
        padding = self._settings.padding
        return own if padding is None else self._filled(row, own, padding.pad_id)

    def _make_lists(self, row: int) -> list[int]:
        """The list of a row; those of the next ones too, which are likely to be asked for."""
        lister = self._settings.model.lister
        begin, end = self._bounds[row], self._bounds[row + 1]
        if row + 1 == len(self._bounds) - 1:
            return lister.list_of(self.ids[begin:end])
        stop = min(row + _AT_ONCE, len(self._bounds) - 1)
        edges = self.edges[row : stop + 1]
        first, *rest = lister.listed(self.ids[begin : edges[-1]], edges - begin)
        self._lists.update(zip(range(row + 1, stop), rest, strict=True))
        return first

    def attention_of(self, row: int) -> list[int]:
        """A new list of an encoding's attention mask."""
        return self._filled(row, [1] * (self._bounds[row + 1] - self._bounds[row]), 0)

    def types_of(self, row: int) -> list[int]:
        """A new list of an encoding's type ids."""
        begin, end = self._bounds[row], self._bounds[row + 1]
        own = [0] * (end - begin) if self.types is None else self.types[begin:end].tolist()
        padding = self._settings.padding
        return own if padding is None else self._filled(row, own, padding.pad_type_id)

    @property
    def sequences(self) -> int | None:
        """How many texts each encoding is of, or None where it has to be looked at."""
        return (1 if self.second is None else 2) if self._settings.model.counts_texts else None

    def columns_of(self, row: int) -> Columns:
        """All fields of an encoding."""
        columns = self._columns(row)
        how = self._settings.padding
        if how is not None:
            columns.pad(self.width, how.direction, how.pad_id, how.pad_type_id, how.pad_token)
        return columns

    def _columns(self, row: int) -> Columns:
        """All fields of an encoding, without padding."""
        with self._lock:  # of several threads one finds offsets, for all texts of the call
            first = self.first.columns(row, 0)
            second = None if self.second is None else self.second.columns(row, 1)
        self._settings.truncate(first, second, self._special)
        return self._settings.model.process(first, second, self._special)


class Short:
    """The encoding of one text, neither truncated nor padded: a list of ids, and all else from :class:`Encodings`."""

    __slots__ = ("_ids", "_settings", "_special", "_text")

    def __init__(self, settings: Settings, text: str, special: bool, ids: list[int]) -> None:
        self._settings, self._text, self._special, self._ids = settings, text, special, ids

    @property
    def sequences(self) -> int | None:
        """How many texts it is of, or None where it has to be looked at."""
        return 1 if self._settings.model.counts_texts else None

    def length_of(self, row: int) -> int:
        """How many ids there are."""
        return len(self._ids)

    def ids_of(self, row: int) -> list[int]:
        """A new list of the ids."""
        return self._ids.copy()

    def attention_of(self, row: int) -> list[int]:
        """A new list of the attention mask."""
        return [1] * len(self._ids)

    def types_of(self, row: int) -> list[int]:
        """A new list of the type ids."""
        return [0] * len(self._ids)

    def columns_of(self, row: int) -> Columns:
        """All fields."""
        return Encodings(self._settings, [self._text], None, self._special, False).columns_of(0)


def malformed(error: UnicodeEncodeError) -> TypeError:
    """What ``tokenizers`` raises for a text with a lone surrogate."""
    return TypeError(
        f"a text must be a str of Unicode characters, and {error.object[error.start : error.end]!r} at index "
        f"{error.start} of one is none: {error.reason}"
    )

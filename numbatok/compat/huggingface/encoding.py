"""``tokenizers.Encoding``: what a text became. Its fields are made when they are first asked for."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from numbatok.compat.huggingface.columns import Columns
from numbatok.compat.huggingface.inputs import is_sequence
from numbatok.compat.huggingface.settings import checked_count, checked_flag, checked_id, checked_text, padding

if TYPE_CHECKING:
    from numbatok.compat.huggingface.calls import Encodings, Short


class Encoding:
    """The ids of a text, or pair of texts, and what is known of each.

    ``ids`` are there at once; the rest is worked out from the text when it is first asked for. Lists are the caller's.

    >>> encoding = tokenizer.encode("Hello world")
    >>> encoding.ids, encoding.tokens, encoding.offsets
    ([15496, 995], ['Hello', 'Ġworld'], [(0, 5), (5, 11)])
    """

    __slots__ = ("__weakref__", "_columns", "_row", "_source")

    def __init__(self) -> None:
        self._source: Encodings | Short | None = None
        self._row = 0
        self._columns: Columns | None = Columns.empty()

    @classmethod
    def _of_row(cls, source: "Encodings | Short", row: int) -> "Encoding":
        encoding = cls.__new__(cls)
        encoding._source, encoding._row, encoding._columns = source, row, None
        return encoding

    @classmethod
    def _of_columns(cls, columns: Columns) -> "Encoding":
        encoding = cls.__new__(cls)
        encoding._source, encoding._row, encoding._columns = None, 0, columns
        return encoding

    @property
    def _all(self) -> Columns:
        """All fields, made from the source if they are not there yet."""
        columns = self._columns
        if columns is None:
            assert self._source is not None
            columns = self._columns = self._source.columns_of(self._row)
        return columns

    def __reduce__(self) -> tuple[Any, tuple[Columns]]:
        return Encoding._of_columns, (self._all,)

    def __len__(self) -> int:
        if self._columns is None and self._source is not None:
            return self._source.length_of(self._row)
        return len(self._all)

    def __repr__(self) -> str:
        return (
            f"Encoding(num_tokens={len(self)}, attributes=[ids, type_ids, tokens, offsets, attention_mask, "
            "special_tokens_mask, overflowing])"
        )

    # --- fields ---

    @property
    def ids(self) -> list[int]:
        """The ids, padding among them."""
        if self._columns is None and self._source is not None:
            return self._source.ids_of(self._row)
        return list(self._all.ids)

    @property
    def attention_mask(self) -> list[int]:
        """1 for each id, 0 for padding."""
        if self._columns is None and self._source is not None:
            return self._source.attention_of(self._row)
        return list(self._all.attention)

    @property
    def type_ids(self) -> list[int]:
        """The type id of each id, as the template gives it."""
        if self._columns is None and self._source is not None:
            return self._source.types_of(self._row)
        return list(self._all.type_ids)

    @property
    def tokens(self) -> list[str]:
        """The string of each id, in the spelling of the vocabulary."""
        return list(self._all.tokens)

    @property
    def offsets(self) -> list[tuple[int, int]]:
        """Where each id begins and ends in its text, in characters; (0, 0) for special tokens of the template."""
        return list(self._all.offsets)

    @property
    def special_tokens_mask(self) -> list[int]:
        """1 for special tokens of the template and for padding, 0 for what the text became."""
        return list(self._all.special)

    @property
    def word_ids(self) -> list[int | None]:
        """The pretoken, or the word that was given, that each id is of; None for special tokens of the template."""
        return list(self._all.words)

    @property
    def words(self) -> list[int | None]:
        """:attr:`word_ids`."""
        return self.word_ids

    @property
    def n_sequences(self) -> int:
        """How many texts there are."""
        if self._columns is None and self._source is not None and self._source.sequences is not None:
            return self._source.sequences
        return len(self._all.ranges) or 1

    @property
    def sequence_ids(self) -> list[int | None]:
        """Which text each id is of; None for special tokens of the template."""
        columns = self._all
        found: list[int | None] = [None] * len(columns)
        for sequence in range(self.n_sequences):
            start, stop = columns.range_of(sequence)
            found[start:stop] = [sequence] * (stop - start)
        return found

    @property
    def overflowing(self) -> "list[Encoding]":
        """The windows that truncation cut off."""
        return [Encoding._of_columns(each.copy()) for each in self._all.overflowing]

    def set_sequence_id(self, sequence_id: int) -> None:
        """Let all ids be those of a sequence."""
        self._all.set_sequence(checked_count("sequence_id", sequence_id))

    # --- from one to another: None where there is no such ---

    def token_to_sequence(self, token_index: int) -> int | None:
        """Which text an id is of."""
        columns = self._all
        if checked_count("token_index", token_index) > len(columns):
            return None
        if not columns.ranges:
            return 0
        found = (which for which, (start, stop) in columns.ranges.items() if start <= token_index < stop)
        return next(found, None)

    def token_to_chars(self, token_index: int) -> tuple[int, int] | None:
        """The offsets of an id."""
        offsets = self._all.offsets
        if self.token_to_sequence(token_index) is None or token_index >= len(offsets):
            return None
        return offsets[token_index]

    def token_to_word(self, token_index: int) -> int | None:
        """The word that an id is of."""
        words = self._all.words
        if self.token_to_sequence(token_index) is None or token_index >= len(words):
            return None
        return words[token_index]

    def char_to_token(self, char_pos: int, sequence_index: int = 0) -> int | None:
        """The first id that has a character of a text."""
        checked_count("char_pos", char_pos)
        columns = self._all
        begin, end = columns.range_of(checked_count("sequence_index", sequence_index))
        for token in range(begin, min(end, len(columns))):
            start, stop = columns.offsets[token]
            if start <= char_pos < stop:
                return token
        return None

    def char_to_word(self, char_pos: int, sequence_index: int = 0) -> int | None:
        """The word that has a character of a text."""
        token = self.char_to_token(char_pos, sequence_index)
        return None if token is None else self.token_to_word(token)

    def word_to_tokens(self, word_index: int, sequence_index: int = 0) -> tuple[int, int] | None:
        """(first, the one after the last) of a word's ids."""
        checked_id("word_index", word_index)
        columns = self._all
        begin, end = columns.range_of(checked_count("sequence_index", sequence_index))
        first = last = None
        for token, word in enumerate(columns.words[begin:end], begin):
            if word is not None and word > word_index:
                break
            if word == word_index:
                first, last = token if first is None else first, token
        return None if first is None or last is None else (first, last + 1)

    def word_to_chars(self, word_index: int, sequence_index: int = 0) -> tuple[int, int] | None:
        """Where a word begins and ends."""
        tokens = self.word_to_tokens(word_index, sequence_index)
        if tokens is None:
            return None
        offsets = self._all.offsets
        return offsets[tokens[0]][0], offsets[tokens[1] - 1][1]

    # --- changes, in place ---

    def pad(
        self,
        length: int,
        *,
        direction: str = "right",
        pad_id: int = 0,
        pad_type_id: int = 0,
        pad_token: str = "[PAD]",
    ) -> None:
        """Fill up to ``length`` ids, at the ``"right"`` or the ``"left"``; what overflowed too."""
        how = padding(direction, pad_id, pad_type_id, pad_token, length, None)
        self._all.pad(length, how.direction, pad_id, pad_type_id, pad_token)

    def truncate(self, max_length: int, stride: int = 0, direction: str = "right") -> None:
        """Keep ``max_length`` ids, of the beginning or with ``"left"`` of the end; the rest becomes ``overflowing``.

        Raises ValueError where ``stride`` is not smaller than ``max_length``.
        """
        if checked_text("direction", direction) not in ("left", "right"):
            raise ValueError(f"Invalid truncation direction value : {direction}")
        counts = checked_count("max_length", max_length), checked_count("stride", stride)
        self._all.truncate(*counts, direction)  # type: ignore[arg-type]

    @staticmethod
    def merge(encodings: "Sequence[Encoding]", growing_offsets: bool = True) -> "Encoding":
        """Several encodings as one; with ``growing_offsets`` each one's offsets go on where the last one's ended."""
        if not is_sequence(encodings):
            raise TypeError(f"encodings must be a list of Encoding, not {type(encodings).__name__}")
        merged, growing_offsets = Columns.empty(), checked_flag("growing_offsets", growing_offsets)
        for encoding in encodings:
            if not isinstance(encoding, Encoding):
                raise TypeError(f"encodings must hold Encoding, not {type(encoding).__name__}")
            merged.merge(encoding._all.copy(), growing_offsets)
        return Encoding._of_columns(merged)

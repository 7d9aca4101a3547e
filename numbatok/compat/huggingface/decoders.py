"""``tokenizers.decoders``, of which there is the stream decoder."""

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from numbatok.compat.huggingface.absent import refuse
from numbatok.compat.huggingface.inputs import as_ids, is_sequence
from numbatok.compat.huggingface.settings import checked_flag
from numbatok.compat.huggingface.tokenizer import Tokenizer

_REPLACEMENT = "\ufffd"


class DecodeStream:
    """Ids to text, one by one: :meth:`step` gives what they add to the text, once it ends with a whole character.

    ``ids`` are those that went before, such as a prompt's. For many streams at once, and streams that tell at their
    end what was held back, see :meth:`numbatok.Tokenizer.batch_stream_decoder`.

    >>> stream = DecodeStream(skip_special_tokens=True)
    >>> [stream.step(tokenizer, id) for id in (34719, 225, 995)]
    [None, ' ☃', ' world']
    """

    def __init__(self, ids: Sequence[int] | None = None, skip_special_tokens: bool | None = False) -> None:
        self._ids: list[int] = [] if ids is None else as_ids(ids).tolist()
        self._skips = skip_special_tokens is not None and checked_flag("skip_special_tokens", skip_special_tokens)
        self._prefix = ""
        self._known = 0  # ids whose text is the prefix

    def step(self, tokenizer: Tokenizer, id: int | Sequence[int]) -> str | None:
        """The text that an id, or several, add; None as long as it is not whole."""
        if not isinstance(tokenizer, Tokenizer):
            raise TypeError(
                f"tokenizer must be a numbatok.compat.huggingface.Tokenizer, not {type(tokenizer).__name__}"
            )
        if not self._prefix and self._ids:
            text = tokenizer.decode(self._ids, self._skips)
            if not text.endswith(_REPLACEMENT):
                self._prefix, self._known = text, len(self._ids)
        if isinstance(id, np.bool_):  # with NumPy before version 2 it is an integer, but not to the reference here
            raise TypeError("id must be an integer or several, not bool_")
        try:
            self._ids += as_ids(id if is_sequence(id) else [id]).tolist()
        except OverflowError as error:
            raise TypeError(str(error)) from None
        text = tokenizer.decode(self._ids, self._skips)
        if len(text.encode()) <= len(self._prefix.encode()) or text.endswith(_REPLACEMENT):
            return None
        if not text.startswith(self._prefix):
            raise ValueError(
                f"the text of the ids is {text!r:.60} and does not begin with what was given out, {self._prefix!r:.60}"
            )
        added = text[len(self._prefix) :]
        rest = len(self._ids) - self._known
        self._ids = self._ids[self._known :]
        self._prefix, self._known = tokenizer.decode(self._ids, self._skips), rest
        return added

    def __copy__(self) -> "DecodeStream":
        copied = DecodeStream(self._ids, self._skips)
        copied._prefix, copied._known = self._prefix, self._known
        return copied

    def __deepcopy__(self, memo: Any) -> "DecodeStream":
        return self.__copy__()


def __getattr__(name: str) -> NoReturn:
    refuse("decoders", name)

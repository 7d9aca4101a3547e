"""Prompts from segments: special tokens come from where the caller says so, never from a text.

A template such as ``f"<|im_start|>user\\n{question}<|im_end|>"``, encoded as one text, lets the question hold
``<|im_end|>`` and go on as somebody else. Segments are encoded each by itself, texts without special tokens, so there
is nothing to forge, nor across a seam.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from numbatok.batch import TokenBatch
from numbatok.calls import Call
from numbatok.kernels import dtypes
from numbatok.memory import address_of
from numbatok.parts import Parts
from numbatok.rows import joined

if TYPE_CHECKING:
    from numbatok.engine import Engine

Kind = Literal["text", "plain", "special"]
KINDS = ("text", "plain", "special")


def encode_segments(engine: "Engine", parts: Parts, segments: Iterable[Any], errors: str) -> TokenBatch:
    """What :meth:`numbatok.Tokenizer.encode_segments` does."""
    texts: dict[str, list[Any]] = {"text": [], "plain": []}
    blocks = []
    kinds = []
    for index, (content, kind) in enumerate(_pairs(segments)):
        number = _special_id(parts, content, index) if kind == "special" else None
        blocks.append(np.array([] if number is None else [number], np.uint32))
        kinds.append(kind)
        for which, documents in texts.items():
            documents.append(content if kind == which else "")  # so that errors name the segment's index
    actions = {
        "text": engine.actions(parts.added_tokens.policy((), ())),
        "plain": np.full(max(len(parts.added_tokens), 1), dtypes.ADDED_AS_TEXT, np.uint8),
    }
    addresses = np.array([address_of(block) for block in blocks], np.int64)
    counts = np.array([len(block) for block in blocks], np.int64)
    encoded = {}
    for which, documents in texts.items():
        places = np.array([kind == which for kind in kinds], np.bool_)
        if not places.any():
            continue
        encoded[which] = done = engine.encode_batch(documents, None, Call(actions[which], errors, None))
        _check_merged(parts, done.ids, done.offsets)
        addresses[places] = address_of(done.ids) + 4 * done.offsets[:-1][places]
        counts[places] = np.diff(done.offsets)[places]
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return TokenBatch(joined(addresses, counts), offsets)


def _pairs(segments: Iterable[Any]) -> Iterable[tuple[Any, Kind]]:
    """(content, kind) of each segment, or the error for what is none."""
    if isinstance(segments, str | bytes) or not isinstance(segments, Iterable):
        raise TypeError(f"segments must be an iterable of (content, kind), not {type(segments).__name__}")
    for index, segment in enumerate(segments):
        if not isinstance(segment, tuple | list) or len(segment) != 2:
            raise TypeError(f"a segment must be a pair (content, kind), not {segment!r:.60} at index {index}")
        content, kind = segment
        if kind not in KINDS:
            raise ValueError(f"a segment's kind must be one of {', '.join(KINDS)}, not {kind!r:.60} at index {index}")
        yield content, kind


def _special_id(parts: Parts, content: object, index: int) -> int:
    """The id of a special segment: an added token, whether it is called special or not."""
    if not isinstance(content, str):
        raise TypeError(f"a special segment must be a str, not {type(content).__name__} at index {index}")
    number = parts.added_tokens.id_of.get(content.encode("utf-8", "surrogatepass"))
    if number is None:
        raise ValueError(
            f"the special segment at index {index} is {content!r:.60}, which is no special token of this tokenizer; it "
            f"has {parts.added_tokens.some_specials()}. Each needs a segment of its own, without other text"
        )
    return number


def _check_merged(parts: Parts, ids: npt.NDArray[np.uint32], offsets: npt.NDArray[np.int64]) -> None:
    """ValueError where merging made a special token of a text, which a vocabulary can ask for."""
    if not parts.merged_specials:
        return
    found = np.flatnonzero(np.isin(ids, list(parts.merged_specials)))
    if len(found):
        index = int(np.searchsorted(offsets, found[0], side="right")) - 1
        token = parts.merged_specials[int(ids[found[0]])]
        raise ValueError(
            f"this vocabulary merges the text of the segment at index {index} into the special token {token!r}: it is "
            "an ordinary token too, so no text can be told from it"
        )

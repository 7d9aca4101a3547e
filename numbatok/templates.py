"""Templates: the ids that a tokenizer puts around one text, or around two that go together."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Special:
    """A special token of a template: its name there, the ids it stands for, and their type id."""

    token: str
    ids: tuple[int, ...]
    type_id: int = 0


@dataclass(frozen=True)
class Text:
    """The place of a text: the first one (``"A"``) or the second (``"B"``), and the type id of its ids."""

    which: Literal["A", "B"]
    type_id: int = 0


Piece = Special | Text


@dataclass(frozen=True)
class Template:
    """What one text becomes, and what a pair does; a text may stand in it any number of times.

    >>> Template(single=(Special("<s>", (0,)), Text("A")), pair=(Special("<s>", (0,)), Text("A"), Text("B", 1)))
    """

    single: tuple[Piece, ...] = (Text("A"),)
    pair: tuple[Piece, ...] = (Text("A"), Text("B", 1))


PLAIN = Template()

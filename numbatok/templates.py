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

    Attributes
    ----------
    single, pair : the pieces
    is_even : whether every window of a text has its piece's type id as soon as special tokens are added, as with
        RobertaProcessing in ``tokenizers``. Else it gives that to the first window alone, and the further ones of a
        second text type 1, those of a first text 0.

    >>> Template(single=(Special("<s>", (0,)), Text("A")), pair=(Special("<s>", (0,)), Text("A"), Text("B", 1)))
    """

    single: tuple[Piece, ...] = (Text("A"),)
    pair: tuple[Piece, ...] = (Text("A"), Text("B", 1))
    is_even: bool = False


PLAIN = Template()


@dataclass(frozen=True)
class Trim:
    """White space at the ends of tokens, U+0020 and what a token of the text has, is left out of their offsets.

    Attributes
    ----------
    keeps_first : whether a token at the text's begin keeps its blank, if it is one, which may have been put there
    behind : the texts that an id of the template stands before by then, where it puts any: ``"A"``, ``"AB"`` or none
    """

    keeps_first: bool
    behind: Literal["", "A", "AB"] = ""

r"""Split rules: which regular expressions cut a text into pretokens, and what becomes of their matches.

A rule is a sequence of steps. The first step cuts the text between two added tokens, each further one cuts every piece
that the step before left, as if it were a text of its own.
"""

from dataclasses import dataclass
from typing import Literal

Behavior = Literal["isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous"]
#: How a pattern is read: as by tiktoken's engine, the Rust crate fancy-regex, or as by that of ``tokenizers``.
Dialect = Literal["rust", "oniguruma"]

GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


@dataclass(frozen=True)
class Split:
    """One step: the matches of a pattern, found from left to right, and the gaps between them.

    Attributes
    ----------
    pattern : regular expression, leftmost-first, over the frozen classes of :mod:`numbatok.patterns.unicode`
    behavior : what is done with a match, as ``tokenizers`` names it. On ``a--b-`` with the pattern ``-``: *isolated*
        ``a - - b -``; *removed* ``a b``; *merged_with_previous* ``a- - b-``; *merged_with_next* ``a - -b -``;
        *contiguous* ``a -- b -``
    invert : whether matches and gaps change places
    dialect : how the pattern is read; ``\\p{N}{1,3}+``, ``$``, ``\\w`` and some folding of case differ
    spelled : whether the step, and each one after it, sees each byte as its character of the byte alphabet
        (:mod:`numbatok.loading.byte_level`), as a step after ``ByteLevel`` in a file does; it can cut between the bytes
        of a character, as the digit ``²`` stands for the byte 0xB2
    """

    pattern: str
    behavior: Behavior = "isolated"
    invert: bool = False
    dialect: Dialect = "rust"
    spelled: bool = False


SplitRule = tuple[Split, ...]


def unspelled_steps(rule: SplitRule) -> int:
    """How many steps come before the first that is spelled: those that see characters."""
    return next((number for number, split in enumerate(rule) if split.spelled), len(rule))


#: What may run a rule: an automaton only, or the package ``regex`` where no automaton can.
PatternEngine = Literal["automaton", "regex"]

"""What locating ids works on: what a token is, in a word; the plan of a call; how a document lies in its text."""

import numpy as np

from numbatok.kernels.intrinsics import at
from numbatok.kernels.jit import helper

# What a token is, in a word: bits 0..19 its bytes, 20..38 the first bytes of characters among them, 39..46 and 47..54
# the blanks at its begin and end that trimming leaves out, and:
INFO_LENGTH = (1 << 20) - 1
INFO_CHARACTERS_SHIFT = 20
INFO_CHARACTERS = (1 << 19) - 1
INFO_BEFORE_SHIFT = 39
INFO_BEHIND_SHIFT = 47
INFO_BLANKS = (1 << 8) - 1
INFO_OPEN = 3  # of the last character that begins in it, where that ends behind it, in two bits each:
INFO_MISSING_SHIFT = 55  # how many bytes are missing ...
INFO_PRESENT_SHIFT = 57  # ... and how many are there
INFO_INSIDE_SHIFT = 59
INFO_BEGINS_INSIDE = 1 << INFO_INSIDE_SHIFT  # it begins with a byte inside of a character
INFO_ENDS_INSIDE = 1 << 60  # it ends before the end of a character
#: Not told by the word: an added token that takes white space along, an id of two tokens, what is too long for it.
INFO_VARIES = 1 << 62

# Fields of a plan: what a call works on.
PLAN_ADDRESSES = 0  # of int64[documents], as encode_documents takes them: addresses, lengths, ends
PLAN_LENGTHS = 1
PLAN_ENDS = 2
PLAN_COUNT = 3
PLAN_IDS = 4  # uint32: all ids
PLAN_INFO = 6  # uint64[limit]: a word for each id
PLAN_NUMBERS = 8  # int32[limit]: the symbol of each id; others are no symbols of the view
PLAN_ROWS = 10  # int64[documents, ROW_FIELDS], or empty where each document is a text as it is
PLAN_IN_BYTES = 12  # 1: offsets in bytes, 0: in characters
PLAN_ADDS_UP = 13  # 1: the ids between two added tokens are its bytes, all of them
PLAN_PREFIX = 14  # bytes of the prefix of later units; -1: the ids of each pretoken are its bytes, all of them
PLAN_OFFSETS = 15  # int64[2 * ids]: the offsets
PLAN_SPACES = 17  # int64: rows (place, white space before, behind) of added tokens, which may take some along; or empty
PLAN_SPACES_USED = 19
PLAN_FIRST = 20  # resume at this document
PLAN_LENGTHS_OF = 21  # int64[limit, 3]: of each id, its bytes and the blanks at its begin and end, in characters
PLAN_TRIM = 23  # how each document, a text as it is, is trimmed at once: TRIM_..., or 0 for not at all
PLAN_WORDS = 24  # int32[ids]: the pretoken or added token of its document that each id is of, or empty if not asked for
PLAN_WORD_COUNTS = 26  # address of int64[documents]: how many of them each document has, those without an id among them
PLAN_LOCATOR = 27  # where the native code of locate_tokens is, for encode_and_locate
PLAN_FIELDS = 28

# How a document lies in its text.
ROW_BASE = 0  # where its segment begins in the text, in characters, as all here; of ids: where they begin
ROW_STOP = 1  # of ids: where they end
ROW_SHIFT = 2  # characters before it that are not in the text
ROW_SOURCES = 3  # address and length of int64: the segment's character that each of the document's stands for, or 0
ROW_FIELDS = 5

TRIM_ALL = 1
TRIM_KEEPS_AT_START = 2  # but for the one blank of an id whose offsets begin at 0 ...
TRIM_KEEPS_FIRST = 4  # ... or of a text's first id
SPELLED_BLANK = 0x120  # the character of the byte alphabet that stands for U+0020
MISPLACED = -50  # the ids are not those of the documents


@helper
def is_inside(source, place):
    """Whether a byte is not the first of its character."""
    return at(source, place) & 0xC0 == 0x80


@helper
def width_of(lead):
    """Bytes of the character that begins with a byte."""
    return np.int64(1) + (lead >= 0xC0) + (lead >= 0xE0) + (lead >= 0xF0)

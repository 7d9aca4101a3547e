"""JSON Lines: where the values of some fields stand in each line.

Objects of Python for each line cost a third of a run's time, and are made by one thread at a time. Here a line is gone
through once, and a string without escapes is a text where it stands.
"""

import numpy as np

from numbatok.kernels.dtypes import U64, ZERO
from numbatok.kernels.intrinsics import array_at, at, put, set_field
from numbatok.kernels.jit import helper, kernel
from numbatok.kernels.json_parts import (
    CLOSE_LIST,
    CLOSE_OBJECT,
    COLON,
    COMMA,
    ODD,
    OPEN_LIST,
    OPEN_OBJECT,
    QUOTE,
    read_string,
    skip_space,
)
from numbatok.kernels.separators import stands_at

# What a value is: the first of the three words of it.
ABSENT = 0
NULL = 1
STRING = 2
OTHER = 3
KIND, ADDRESS, BYTES = range(3)
VALUE_FIELDS = 3

MOST_DEPTH = 63  # a line that is nested deeper is odd: each level is a bit

_FALSE, _NULL, _TRUE = (np.frombuffer(word, np.uint8) for word in (b"false", b"null", b"true"))
_MINUS, _PLUS, _DOT, _E, _ZERO, _F, _N, _T = (ord(character) for character in "-+.e0fnt")


@helper
def _end_of_digits(json, position, length):
    """Where the digits at ``position`` end, or ODD where there is none."""
    begin = position
    while position < length and 0 <= at(json, position) - _ZERO < 10:
        position += 1
    return position if position > begin else np.int64(ODD)


@helper
def _end_of_number(json, position, length):
    """Where the number at ``position`` ends, or ODD where there is none."""
    if at(json, position) == _MINUS:
        position += 1
    if position < length and at(json, position) == _ZERO:
        position += 1
    else:
        position = _end_of_digits(json, position, length)
    if position >= 0 and position < length and at(json, position) == _DOT:
        position = _end_of_digits(json, position + 1, length)
    if position >= 0 and position < length and at(json, position) | 0x20 == _E:
        position += 1
        if position < length and (at(json, position) == _MINUS or at(json, position) == _PLUS):
            position += 1
        position = _end_of_digits(json, position, length)
    return position


@helper
def _end_of_word(json, position, length, word):
    """Where a word at ``position`` ends, or ODD where it does not stand there."""
    end = position + len(word)
    return end if end <= length and stands_at(json, position, word) else np.int64(ODD)


@helper
def _number_of(json, begin, end, names, edges):
    """Which of the names stands in ``json[begin:end]``, or -1."""
    for number in range(len(edges) - 1):
        first = at(edges, number)
        if at(edges, number + 1) - first == end - begin:
            same = np.int64(0)
            while same < end - begin and at(json, begin + same) == at(names, first + same):
                same += 1
            if same == end - begin:
                return np.int64(number)
    return np.int64(-1)


@helper
def _enter(value, kind, address, size):
    """Write a value's words to the record at address ``value``."""
    set_field(value, KIND, kind)
    set_field(value, ADDRESS, address)
    set_field(value, BYTES, size)


@helper
def _go_through(json, length, address, names, edges, values, texts, buffer, used):
    """Find the fields of an object, ``json[:length]``, the last of those with one name, as ``json.loads`` does.

    ``address`` is that of the JSON, ``values`` that of the records that are set, one for each name, and ``texts`` that
    of ``buffer``. Returns the new ``used``: how far the buffer is filled by what strings with escapes say; or ODD.
    """
    odd = np.int64(ODD)
    position = skip_space(json, np.int64(0), length)
    if position >= length or at(json, position) != OPEN_OBJECT:
        return odd
    position = skip_space(json, position + 1, length)
    depth = np.int64(1)
    nesting = U64(1)  # a bit for each level, the innermost lowest: whether it is an object
    wants_name = may_close = True  # in an object before a value's name; in an object or list that has just begun
    known = begin = np.int64(-1)  # which field of depth 1 is gone through, and where its value begins
    while True:
        if position >= length:
            return odd
        byte = at(json, position)
        if not (may_close and byte == (CLOSE_OBJECT if nesting & U64(1) != ZERO else CLOSE_LIST)):
            may_close = False
            if depth == 1:
                begin = position
            kind = np.int64(OTHER)
            after = used  # where in the buffer ends what a string says
            if byte == QUOTE:
                position, after = read_string(json, position + 1, length, buffer, used)
                kind = np.int64(STRING)
            elif wants_name:
                return odd
            elif byte in (OPEN_OBJECT, OPEN_LIST):
                if depth == MOST_DEPTH:
                    return odd
                depth += 1
                nesting = nesting << U64(1) | U64(byte == OPEN_OBJECT)
                wants_name = byte == OPEN_OBJECT
                may_close = True
                position = skip_space(json, position + 1, length)
                continue
            elif byte == _N:
                position = _end_of_word(json, position, length, _NULL)
                kind = np.int64(NULL)
            elif byte == _T:
                position = _end_of_word(json, position, length, _TRUE)
            elif byte == _F:
                position = _end_of_word(json, position, length, _FALSE)
            else:
                position = _end_of_number(json, position, length)
            if position < 0:
                return odd
            end = position
            position = skip_space(json, position, length)
            if wants_name:
                if depth == 1:
                    if after - used < end - begin - 2:  # escapes, which could spell any of the names
                        return odd
                    known = _number_of(json, begin + 1, end - 1, names, edges)
                if position >= length or at(json, position) != COLON:
                    return odd
                position = skip_space(json, position + 1, length)
                wants_name = False
                continue
            if depth == 1 and known >= 0:
                value = values + 8 * VALUE_FIELDS * known
                if kind != STRING:
                    _enter(value, kind, address + begin, end - begin)
                elif after - used == end - begin - 2:
                    _enter(value, kind, address + begin + 1, end - begin - 2)
                else:
                    _enter(value, kind, texts + used, after - used)
                    used = after
            position = skip_space(json, position, length)
        # Behind a value, or where what is empty ends.
        while position < length and at(json, position) == (CLOSE_OBJECT if nesting & U64(1) != ZERO else CLOSE_LIST):
            depth -= 1
            nesting >>= U64(1)
            position += 1
            if depth == 1 and known >= 0:
                _enter(values + 8 * VALUE_FIELDS * known, np.int64(OTHER), address + begin, position - begin)
            position = skip_space(json, position, length)
            if depth == 0:
                return used if position == length else odd
        if position >= length or at(json, position) != COMMA:
            return odd
        position = skip_space(json, position + 1, length)
        wants_name = nesting & U64(1) != ZERO


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def find_fields(addresses, lengths, count, names, edges, fields, values, texts, room):
    """Find the values of some fields in lines of JSON, each an object; return how many lines are odd.

    A line is odd that is no well-formed object, or none that this kernel is made for, or in which the first of the
    fields is neither a string nor null.

    Parameters
    ----------
    addresses, lengths : of int64[count], where lines are, as UTF-8, and their bytes
    names, edges : addresses of the fields' names as UTF-8, one after the other, and of int64[fields + 1], where each
        begins and the last ends
    values : address of int64[count, fields, VALUE_FIELDS], zeroed. A line whose first word is ODD is passed over; of
        the others each field gets KIND, and if it is not ABSENT the ADDRESS and the BYTES of its value: of a string
        what it says, else the JSON.
    texts : address of uint8[room], which gets what strings say that have escapes; the room is the bytes of all lines
        and STRING_SLACK
    """
    address_of = array_at(addresses, count, np.int64)
    length_of = array_at(lengths, count, np.int64)
    edges_of = array_at(edges, fields + 1, np.int64)
    names_of = array_at(names, at(edges_of, fields), np.uint8)
    words = array_at(values, count * fields * VALUE_FIELDS, np.int64)
    buffer = array_at(texts, room, np.uint8)
    odd = used = np.int64(0)
    for number in range(count):
        first = number * fields * VALUE_FIELDS
        if at(words, first) == ODD:
            odd += 1
            continue
        address, length = at(address_of, number), at(length_of, number)
        readable = length
        # One byte between two lines is on a page of one of them: all is memory to the second one's end.
        if number + 1 < count and at(address_of, number + 1) == address + length + 1:
            readable += 1 + at(length_of, number + 1)
        json = array_at(address, readable, np.uint8)
        end = _go_through(json, length, address, names_of, edges_of, values + 8 * first, texts, buffer, used)
        if end < 0 or at(words, first) in (ABSENT, OTHER):
            put(words, first, np.int64(ODD))
            odd += 1
        else:
            used = end
    return odd

"""Parts of a ``str`` as new ones, at the speed of memory.

CPython makes a part of a text that has other characters than ASCII in several times the time that copying takes: it
looks for the widest character one by one, and narrows what has become narrow.
"""

import numpy as np

from numbatok.kernels.intrinsics import array_at, at, put
from numbatok.kernels.intrinsics_cpython import append_item, characters_of_str, new_str
from numbatok.kernels.jit import helper, kernel
from numbatok.kernels.packed import PACKED_BLOCK, all_bits, copy_characters
from numbatok.kernels.pieces import characters_between

NO_MEMORY = -1
LARGEST_CHARACTER = 0x10FFFF
ASCII = 0x7F  # the bits of such characters


@helper
def _copied(source, count, item, size, bits):
    """:func:`_slice` of characters that have these ``bits``, or one that takes all of an item."""
    made = new_str(count, min(bits, LARGEST_CHARACTER))
    if made == 0:
        return made
    target, _, kind, _ = characters_of_str(made)
    if kind == 1:
        copy_characters(source, array_at(target, count, np.uint8), np.uint8)
    elif kind == 2 and size >= 2:
        copy_characters(source, array_at(target, count, np.uint16), np.uint16)
    elif size >= 4:
        copy_characters(source, array_at(target, count, np.uint32), np.uint32)
    return made


@helper
def _slice(address, count, item, size):
    """``id`` of a new ``str`` of characters at ``address``, of the type ``item``, of ``size`` bytes; 0 as new_str."""
    source = array_at(address, count, item)
    widest = np.int64(1) << (4 * size) if size > 1 else np.int64(0x80)  # from which on a character takes all of it
    bits = done = np.int64(0)
    while done < count and bits < widest:
        stop = min(done + PACKED_BLOCK, count)
        bits |= all_bits(source, done, stop, item)
        done = stop
    return _copied(source, count, item, size, bits)


@kernel("int64(int64, int64, int64, int64, int64, int64, int64)", holding_gil=True)
def slice_text(object_id, data, size, spans, count, numbers, list_id):
    """Append parts of a ``str`` to a list, each a new ``str``; returns how many, or NO_MEMORY.

    Parameters
    ----------
    object_id : ``id`` of the ``str``
    data, size : address of its UTF-8, and its bytes
    spans : address of int64[count, 2], begin and end of each part in bytes; neither falls from one to the next
    numbers : address of int64[count, 2], set to the same in characters
    list_id : ``id`` of the list
    """
    places = array_at(spans, 2 * count, np.int64)
    found = array_at(numbers, 2 * count, np.int64)
    address, characters, kind, is_ascii = characters_of_str(object_id)
    place = number = end = end_number = np.int64(0)
    for i in range(count):
        begin, stop = at(places, 2 * i), at(places, 2 * i + 1)
        if begin >= end:
            place, number = end, end_number
        if is_ascii != 0:
            number, end_number = begin, stop
        else:
            number += characters_between(data, place, begin)
            if size - stop < stop - begin:
                end_number = characters - characters_between(data, stop, size)
            else:
                end_number = number + characters_between(data, begin, stop)
        place, end = begin, stop
        put(found, 2 * i, number)
        put(found, 2 * i + 1, end_number)
        first, length = address + kind * number, end_number - number
        if length == stop - begin:  # all ASCII
            made = _copied(array_at(data + begin, length, np.uint8), length, np.uint8, 1, np.int64(ASCII))
        elif kind == 1:
            made = _slice(first, length, np.uint8, 1)
        elif kind == 2:
            made = _slice(first, length, np.uint16, 2)
        else:
            made = _slice(first, length, np.uint32, 4)
        if made == 0 or append_item(list_id, made) < 0:
            return np.int64(NO_MEMORY)
    return np.int64(count)

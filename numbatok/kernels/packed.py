"""Characters of a ``str`` kept for comparison, in as few bytes as each block of them takes.

CPython takes four bytes for every character of a text in which one is beyond U+FFFF. A text that begins like an earlier
one is compared at the speed of memory: what is kept is read, and the text as it is, and nothing is converted.
"""

import numpy as np

from numbatok.kernels.intrinsics import array_at, at, put
from numbatok.kernels.intrinsics_cpython import characters_of_str, release_gil, take_gil
from numbatok.kernels.jit import helper, kernel

PACKED_BLOCK = 1024  # characters that take the same number of bytes each


@helper
def all_bits(source, begin, end, item):
    """The bits that any of the characters ``source[begin:end]`` has, which are of the type ``item``."""
    bits = item(0)
    for i in range(begin, end):
        bits = item(bits | at(source, i))
    return np.int64(bits)


@helper
def _width(source, item):
    """Bytes that the widest of some characters takes: 1, 2 or 4."""
    bits = all_bits(source, np.int64(0), len(source), item)
    return np.int64(1) if bits < 0x100 else np.int64(2) if bits < 0x10000 else np.int64(4)


@helper
def copy_characters(source, target, item):
    """Write characters in the type of an item."""
    for i in range(len(source)):
        put(target, i, item(at(source, i)))


@helper
def _pack(address, count, item, size, widths, output):
    """See :func:`pack_characters`; the characters, at ``address``, are of the type ``item``, of ``size`` bytes."""
    width_of = array_at(widths, (count + PACKED_BLOCK - 1) // PACKED_BLOCK, np.uint8)
    used = np.int64(0)
    for block in range(len(width_of)):
        first = PACKED_BLOCK * block
        length = min(count - first, PACKED_BLOCK)
        source = array_at(address + size * first, length, item)
        width = _width(source, item)
        if width == 1:
            copy_characters(source, array_at(output + used, length, np.uint8), np.uint8)
        elif width == 2:
            copy_characters(source, array_at(output + used, length, np.uint16), np.uint16)
        else:
            copy_characters(source, array_at(output + used, length, np.uint32), np.uint32)
        put(width_of, block, np.uint8(width))
        used += width * length
    return used


@kernel("int64(int64, int64, int64, int64, int64)", holding_gil=True)
def pack_characters(object_id, begin, count, widths, output):
    """Write ``count`` characters of a ``str`` from number ``begin`` on, block by block; return how many bytes.

    Parameters
    ----------
    object_id : ``id`` of the ``str``, which has them
    widths : address of uint8, which gets the bytes that a character of each block takes: 1, 2 or 4
    output : address of uint8[4 * count], aligned to 4
    """
    address, _, kind, _ = characters_of_str(object_id)
    address += kind * begin
    if kind == 1:
        return _pack(address, count, np.uint8, 1, widths, output)
    if kind == 2:
        return _pack(address, count, np.uint16, 2, widths, output)
    return _pack(address, count, np.uint32, 4, widths, output)


@helper
def _same(source, packed, item):
    """Whether two arrays have the same characters; the first is of the type ``item``. There is no branch for each."""
    differ = item(0)
    for i in range(len(source)):
        differ = item(differ | at(source, i) ^ item(at(packed, i)))
    return differ == 0


@helper
def _all_same(address, count, item, size, widths, packed):
    """See :func:`has_packed`; arguments as :func:`_pack`."""
    width_of = array_at(widths, (count + PACKED_BLOCK - 1) // PACKED_BLOCK, np.uint8)
    used = np.int64(0)
    for block in range(len(width_of)):
        first = PACKED_BLOCK * block
        length = min(count - first, PACKED_BLOCK)
        source = array_at(address + size * first, length, item)
        width = np.int64(at(width_of, block))
        if width > size:  # one of its characters is beyond all that the text has
            return np.int64(0)
        if width == 1:
            same = _same(source, array_at(packed + used, length, np.uint8), item)
        elif width == 2:
            same = _same(source, array_at(packed + used, length, np.uint16), item)
        else:
            same = _same(source, array_at(packed + used, length, np.uint32), item)
        if not same:
            return np.int64(0)
        used += width * length
    return np.int64(1)


@kernel("int64(int64, int64, int64, int64, int64)", holding_gil=True)
def has_packed(object_id, begin, count, widths, packed):
    """Whether the characters of a ``str`` from number ``begin`` on are ``count`` that were packed: 1 or 0.

    The ``str`` has as many; ``widths`` and ``packed`` are the addresses that :func:`pack_characters` wrote to. The GIL
    is released meanwhile.
    """
    address, _, kind, _ = characters_of_str(object_id)
    address += kind * begin
    state = release_gil()
    if kind == 1:
        result = _all_same(address, count, np.uint8, 1, widths, packed)
    elif kind == 2:
        result = _all_same(address, count, np.uint16, 2, widths, packed)
    else:
        result = _all_same(address, count, np.uint32, 4, widths, packed)
    take_gil(state)
    return result

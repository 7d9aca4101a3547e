"""Where Python keeps text: addresses without copies; and short texts, encoded by the call that finds them."""

import numpy as np

from numbatok.kernels.dtypes import (
    ANY_NON_ASCII,
    ANY_TEXT,
    AT_BEGINNING,
    LIST,
    VIEW_ARRAY_DATA,
    VIEW_ARRAY_KIND,
    VIEW_CHANGES,
    VIEW_ENCODER,
    VIEW_ID_TYPE,
    VIEW_NEW_ARRAY,
    WORK_DOCUMENT,
    WORK_LIST,
    WORK_LIST_COUNT,
    WORK_LIST_FIRST,
    WORK_OUTPUT,
    WORK_OUTPUT_USED,
    WORK_POSITION,
    WORK_TEXT,
    WORK_VIEW,
)
from numbatok.kernels.intrinsics import array_at, at, call_c, call_kernel, field, prefetch, put, set_field, table
from numbatok.kernels.intrinsics_cpython import (
    characters_of_str,
    int_value,
    list_item,
    memory_of_bytes,
    new_array,
    new_int,
    none,
    release_gil,
    take_gil,
    utf8_of_str,
)
from numbatok.kernels.jit import helper, kernel, method

IS_STR = 0
IS_BYTES = 1
IS_NEITHER = 2  # another type, or a str with lone surrogates
IS_CHARACTERS = 8  # and with it 1, 2 or 4: a non-ASCII str whose characters take so many bytes each
AHEAD = 32  # items of a list whose headers are fetched: 20,000 cold ones take 0.15 ms, by 16 0.18, with none 0.32
NOT_SHORT = -100  # encode_text: leave it to Python
# Bytes up to which the GIL is kept: of 256, eight threads encode 630,000 texts a second then, else 360,000; and one
# thread saves 0.1 us a call.
KEPT_BYTES = 1 << 11
SHORT_TEXT = 1 << 16  # most bytes that encode_text takes: their ids fit a scratch's own output
LONG_TEXT = SHORT_TEXT >> 2  # characters from which on a non-ASCII str's UTF-8 is not left to CPython


@helper
def _locate(object_id):
    """(kind, address, bytes) of the text in a Python object. A non-ASCII ``str`` keeps its UTF-8 from then on."""
    address, length = utf8_of_str(object_id)  # one call of CPython for ASCII, too
    if address != 0:
        return IS_STR, address, length
    address, length = memory_of_bytes(object_id)
    if address != 0:
        return IS_BYTES, address, length
    return IS_NEITHER, address, length


@helper
def _start_at(work, address, length):
    """Make a text the one document of a call, and set the scratch to its start."""
    set_field(work, WORK_TEXT, address)
    set_field(work, WORK_TEXT + LIST, length)
    set_field(work, WORK_DOCUMENT, 0)
    set_field(work, WORK_POSITION, AT_BEGINNING)
    set_field(work, WORK_OUTPUT_USED, 0)


@helper
def _encode_list(work):
    """Encode the documents of ``WORK_LIST`` that the call is about: the text, and what a template puts around it."""
    first = work + 8 * (WORK_LIST + field(work, WORK_LIST_FIRST))
    encoder = field(field(work, WORK_VIEW), VIEW_ENCODER)
    return call_kernel(encoder, (work, first, first + 8 * LIST, first + 16 * LIST, field(work, WORK_LIST_COUNT)))


@kernel("int64(int64, int64)", holding_gil=True)
def locate_text(object_id, work):
    """Point ``WORK_TEXT`` at the UTF-8 of a ``str``, and set the scratch to its start.

    ``object_id`` is ``id(text)``; the caller keeps ``text`` alive. Returns its bytes, or -1 for what is no ``str`` or
    has lone surrogates.
    """
    kind, address, length = _locate(object_id)
    if kind != IS_STR:
        return np.int64(-1)
    _start_at(work, address, length)
    return length


@helper
def encode_short(object_id, work):
    """See :func:`encode_text`."""
    address, characters, _, is_ascii = characters_of_str(object_id)
    changes = field(field(work, WORK_VIEW), VIEW_CHANGES)
    if changes == ANY_TEXT or (changes == ANY_NON_ASCII and is_ascii == 0) or field(work, WORK_LIST_COUNT) == 0:
        return np.int64(NOT_SHORT)
    if characters > SHORT_TEXT or (is_ascii == 0 and characters >= LONG_TEXT):
        return np.int64(NOT_SHORT)
    length = characters
    if is_ascii == 0:
        address, length = utf8_of_str(object_id)
    if address == 0:
        return np.int64(NOT_SHORT)
    _start_at(work, address, length)
    if length <= KEPT_BYTES:
        return _encode_list(work)
    state = release_gil()
    result = _encode_list(work)
    take_gil(state)
    return result


@kernel("int64(int64, int64)", holding_gil=True)
def encode_text(object_id, work):
    """Encode a ``str`` of at most ``SHORT_TEXT`` bytes into the scratch's output.

    The GIL is released meanwhile if there is more than ``KEPT_BYTES`` to do. One call instead of two, since at 256
    bytes a call from Python costs as much as the work. Returns what ``encode_documents`` returns, or NOT_SHORT, with
    nothing done, for all else.
    """
    return encode_short(object_id, work)


@helper
def new_ids(work, count):
    """``id`` of a new array of the first ``count`` ids of the scratch's output; owned, and 0 where memory is short."""
    view = field(work, WORK_VIEW)
    kind = field(view, VIEW_ARRAY_KIND)
    made = new_array(field(view, VIEW_NEW_ARRAY), kind, field(view, VIEW_ID_TYPE), count, np.int64(0))
    if made != 0:
        ids = table(work, WORK_OUTPUT, np.uint32)
        target = array_at(field(made + field(view, VIEW_ARRAY_DATA), 0), count, np.uint32)
        for i in range(count):
            put(target, i, at(ids, i))
    return made


@method
def encode_to_array(owner, object_id):
    """The ids of a ``str`` as a new array, by the scratch record ``owner``; None where encode_text returns a status."""
    work = int_value(owner)
    count = encode_short(object_id, work)
    return none() if count < 0 else new_ids(work, count)


@method
def count_ids(owner, object_id):
    """How many ids a ``str`` has; None as :func:`encode_to_array`."""
    count = encode_short(object_id, int_value(owner))
    return none() if count < 0 else new_int(count)


@kernel("int64(int64, int64)", holding_gil=True)
def locate_characters(object_id, work):
    """Point ``WORK_TEXT`` at the characters of a ``str``, as CPython keeps them.

    Returns the bytes a character takes, 1, 2 or 4, or 0 for ASCII and for another type.
    """
    address, length, kind, is_ascii = characters_of_str(object_id)
    set_field(work, WORK_TEXT, address)
    set_field(work, WORK_TEXT + LIST, length)
    if address == 0 or is_ascii != 0:
        return np.int64(0)
    return kind


@helper
def _locate_characters(object_id):
    """What :func:`_locate` returns, but of a non-ASCII ``str`` the characters, and their number."""
    address, count, width, is_ascii = characters_of_str(object_id)
    if address == 0:
        return _locate(object_id)
    if is_ascii != 0:
        return IS_STR, address, count
    return IS_CHARACTERS | width, address, count


@kernel("int64(int64, int64, int64, int64, int64, int64)", holding_gil=True)
def locate_list(list_id, count, addresses, lengths, kinds, as_characters):
    """Address, bytes and kind of each item of a list, into int64[count], int64[count] and int8[count].

    The kind is IS_STR, IS_BYTES or IS_NEITHER. A non-ASCII ``str`` keeps its UTF-8, which is located, from then on;
    unless ``as_characters`` is not 0: then it is its own characters, their number and IS_CHARACTERS with their width.
    Returns the sum of the lengths. 20,000 ``str`` take 0.15 ms.
    """
    address_of = array_at(addresses, count, np.int64)
    length_of = array_at(lengths, count, np.int64)
    kind_of = array_at(kinds, count, np.int8)
    total = np.int64(0)
    for i in range(min(AHEAD, count)):
        put(address_of, i, list_item(list_id, i))
    for i in range(count):
        if i + AHEAD < count:
            item = list_item(list_id, i + AHEAD)
            for byte in (0, 32):  # a header's end is in the next cache line as often as not
                prefetch(array_at(item, 1, np.uint8), byte)
            put(address_of, i + AHEAD, item)
        item = at(address_of, i)
        kind, address, length = _locate(item) if as_characters == 0 else _locate_characters(item)
        put(address_of, i, address)
        put(length_of, i, length)
        put(kind_of, i, np.int8(kind))
        total += length
    return total


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64)", holding_gil=True)
def copy_strings(load, allocator, first, stride, count, unpacked, lengths, output):
    """Read the strings of an array of NumPy's StringDType, by NumPy's own function.

    It keeps the GIL: whoever waits for the allocator's lock holds it, and would wait for ever.

    Parameters
    ----------
    load : address of ``NpyString_load``
    allocator : address of the array's allocator, whose lock the caller holds
    first, stride, count : where the first string is, bytes from one to the next, how many there are
    unpacked : address of int64[2], where ``load`` puts size and address
    lengths : address of int64[count], which gets the bytes of each string, and -1 for a null
    output : address where their bytes go, one after the other, or 0

    Returns how many bytes that is, or -1 where NumPy cannot read a string.
    """
    length_of = array_at(lengths, count, np.int64)
    used = np.int64(0)
    for number in range(count):
        status = call_c(load, allocator, first + number * stride, unpacked)
        if status != 0:
            if status < 0:
                return np.int64(-1)
            put(length_of, number, np.int64(-1))
            continue
        size = field(unpacked, 0)
        put(length_of, number, size)
        if output != 0:
            source = array_at(field(unpacked, 1), size, np.uint8)
            target = array_at(output + used, size, np.uint8)
            for i in range(size):
                put(target, i, at(source, i))
        used += size
    return used

"""Stage 1: where pretokens begin, as a bitmap of one bit a byte.

A *walker* is a kernel that begins at a pretoken's start and marks the starts from there on::

    walk(view, work, text, length, base, stop, blocks) -> decided

    text, length   address of the text and its bytes; nothing outside is read
    base           byte offset where a scan of the split rule stands, that is: a pretoken begins there
    stop           byte offset where the text ends for the split rule (an added token, or the end)
    blocks         how many blocks of 64 bytes from ``base`` on to walk; they reach ``stop`` when
                   ``base + 64 * blocks >= stop``
    decided        byte offset below which every bit set is a start of the whole text, however it goes on; it is
                   ``stop`` when the blocks reach it. The last start below it may begin an unfinished pretoken.

Bit ``i`` of the bitmap (``WORK_STARTS``) is the byte ``base + i``; bit 0 is always set, bits at and after ``stop``
never. The split rules look at nothing before the place where they stand, so walking on from any start that was found
continues the same cut: that is how chunks, buffers that grow, and workers on one document all resume.

A rule of several steps cuts the pieces of one step again in the next; its walker marks all of their starts at once, and
each of them is a place from which a fresh walk gives the same pieces (the walkers say why).

How walkers work
    Each goes through the text in blocks of 64 bytes and has a 64-bit mask for each class of characters, in which all
    bytes of a character are set. What a rule says about neighbours is said of masks by shifts, what it says about runs
    by additions, whose carry runs through the ones. A name with ``_before`` is bit 63 of the mask in the block before,
    as bit 0. At ``base`` nothing is before: a scan has no memory.

The method is that of the class masks of simdjson (Langdale and Lemire, "Parsing Gigabytes of JSON per Second", 2019,
section 3.1), applied to runs of classes. Walkers are modules of their own (``walk_*.py``); here is what they share.
"""

import numpy as np

from numbatok.kernels.dtypes import (
    ALIKE_BITS,
    ALIKE_PAIRS,
    ALIKE_RUNS,
    ALL_ONES,
    CLASS_TABLE_SIZE,
    ONE,
    TAIL_BYTES,
    TAIL_KEPT,
    U64,
    VIEW_CLASSES,
    WORK_TAIL,
    ZERO,
)
from numbatok.kernels.intrinsics import (
    array_at,
    at,
    field,
    leading_zeros,
    load_u64,
    put,
    set_bits,
    store_u64,
    table,
    trailing_zeros,
)
from numbatok.kernels.intrinsics_vector import equal_to, in_range
from numbatok.kernels.jit import helper

#: Most bytes after its last block that a walker may look at; CLIP's looks at 14, others at 8. What is decided so far
#: before an end stays, whatever follows.
LOOK_AHEAD = 16

TOP = np.uint64(63)
TWO = np.uint64(2)
THREE = np.uint64(3)

MANY_ALIKE = 8  # first bytes in a block, from which on it pays to look for those that are alike

#: First bytes of UTF-8 whose characters are letters, all of them: most of Cyrillic (U+0400 to U+047F), of Han (U+5000
#: to U+9FFF) and of Hangul (U+B000 to U+CFFF). A block of those is marked at once, five times as fast as one by one.
LETTER_LEADS = (0xD0, 0xD1, 0xE5, 0xE6, 0xE7, 0xE8, 0xE9, 0xEB, 0xEC)
#: One more that is followed by letters alone if its second byte is at least LATE_HAN (U+4E00 to U+4FFF).
HAN_LEAD, LATE_HAN = 0xE4, 0xB8


@helper
def set_bit(bitmap, bit):
    """Set a bit of a bitmap."""
    put(bitmap, bit >> 6, at(bitmap, bit >> 6) | ONE << np.uint64(bit & 63))


@helper
def is_set(bitmap, bit):
    """Whether a bit of a bitmap is set."""
    return at(bitmap, bit >> 6) >> np.uint64(bit & 63) & ONE != ZERO


@helper
def last_start(starts, limit):
    """The last set bit at or before bit ``limit``; bit 0 is set."""
    block = limit >> 6
    bits = at(starts, block) & (ALL_ONES >> np.uint64(63 - (limit & 63)))
    while bits == ZERO:
        block -= 1
        bits = at(starts, block)
    return 64 * block + 63 - np.int64(leading_zeros(bits))


@helper
def next_start(starts, bit, end):
    """The first set bit from ``bit`` on that is before bit ``end``, or ``end``."""
    if bit >= end:
        return end
    block = bit >> 6
    bits = at(starts, block) >> np.uint64(bit & 63) << np.uint64(bit & 63)
    while bits == ZERO:
        block += 1
        if 64 * block >= end:
            return end
        bits = at(starts, block)
    return min(64 * block + np.int64(trailing_zeros(bits)), end)


@helper
def whole_start(text, length, starts, base, limit):
    """The last start at or before byte ``limit`` that is a character's first byte; ``base`` if there is no other."""
    source = array_at(text, length, np.uint8)
    while limit > base:
        limit = base + last_start(starts, limit - base)
        if at(source, limit) & 0xC0 != 0x80:
            break
        limit -= 1
    return limit


@helper
def keep_tail(work, text, length):
    """Copy the text's last bytes, followed by zeros, into the scratch, for reads that would cross its end."""
    tail = table(work, WORK_TAIL, np.uint8)
    source = array_at(text, length, np.uint8)
    if length >= TAIL_KEPT:
        for i in range(0, TAIL_KEPT, 8):
            store_u64(tail, i, load_u64(source, length - TAIL_KEPT + i))
    else:
        whole = length & ~7
        for i in range(0, whole, 8):
            store_u64(tail, i, load_u64(source, i))
        for i in range(whole, TAIL_KEPT, 8):
            store_u64(tail, i, ZERO)
        for i in range(whole, length):
            put(tail, i, at(source, i))
    for i in range(TAIL_KEPT, TAIL_BYTES, 8):
        store_u64(tail, i, ZERO)


@helper
def character_at(text, position, stop):
    """(code point, bytes) of the character at ``text[position]``; never reads at or after ``stop``.

    Text is valid UTF-8 unless another thread changes it meanwhile; then the result is some code point below 2^21 and a
    length that stays inside, and nothing worse happens.
    """
    lead = np.int64(at(text, position))
    room = stop - position
    if lead < 0xC0 or room < 2:
        return lead, np.int64(1)
    second = np.int64(at(text, position + 1)) & 0x3F
    if lead < 0xE0 or room < 3:
        return (lead & 0x1F) << 6 | second, np.int64(2)
    third = np.int64(at(text, position + 2)) & 0x3F
    if lead < 0xF0 or room < 4:
        return (lead & 0x0F) << 12 | second << 6 | third, np.int64(3)
    fourth = np.int64(at(text, position + 3)) & 0x3F
    return (lead & 0x07) << 18 | second << 12 | third << 6 | fourth, np.int64(4)


@helper
def block_address(work, text, length, position):
    """Address of the 64 bytes of the block at ``text[position]``: in the text, or in its padded tail."""
    if position + 64 <= length:
        return text + position
    if length >= TAIL_KEPT:
        position -= length - TAIL_KEPT
    return field(work, WORK_TAIL) + position


@helper
def valid_bits(position, stop):
    """Mask of the bytes of the block at ``position`` that lie before ``stop``."""
    if stop - position < 64:
        return (ONE << np.uint64(stop - position)) - ONE
    return ALL_ONES


@helper
def late_han(block):
    """Mask of the first bytes of U+4E00 to U+4FFF, as far as the second byte is in the block."""
    return equal_to(block, HAN_LEAD) & in_range(block, LATE_HAN, 0xC0 - LATE_HAN) >> ONE


@helper
def letter_leads(block, high):
    """Mask of the bytes of characters whose first byte (or two) says that they are letters: see LETTER_LEADS."""
    pairs = in_range(block, 0xD0, 2) & high
    triples = (in_range(block, 0xE5, 5) | in_range(block, 0xEB, 2) | late_han(block)) & high
    return pairs | pairs << ONE | triples | triples << ONE | triples << TWO


@helper
def _with_class(masks, run, kind):
    """The masks of the seven classes with the bytes ``run`` in those whose bits ``kind`` has."""
    m0, m1, m2, m3, m4, m5, m6 = masks
    return (
        m0 | run & (ZERO - (kind & ONE)),
        m1 | run & (ZERO - (kind >> ONE & ONE)),
        m2 | run & (ZERO - (kind >> TWO & ONE)),
        m3 | run & (ZERO - (kind >> THREE & ONE)),
        m4 | run & (ZERO - (kind >> U64(4) & ONE)),
        m5 | run & (ZERO - (kind >> U64(5) & ONE)),
        m6 | run & (ZERO - (kind >> U64(6) & ONE)),
    )


@helper
def wide_classes(view, text, base, position, stop, block, wanted):
    """Masks of seven classes of non-ASCII characters: bit k of their entry in the class table is class k.

    ``wanted`` has the bytes of these characters in the block at ``position``, whose bytes are at address ``block``. One
    that began in the block before (never before ``base``) is looked at again, from its first byte. The masks have all
    bytes of a character.

    Most characters of a script begin alike and have one class, as the table's ALIKE_BYTES have it: where many are
    wanted, those are marked at once, Arabic in a third of the time; the others one by one.
    """
    source = array_at(text, stop, np.uint8)
    classes = table(view, VIEW_CLASSES, np.uint8)
    masks = (ZERO, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO)
    leads = wanted & in_range(block, 0xC2, 0xF0 - 0xC2)
    while set_bits(leads) >= MANY_ALIKE:
        place = block + np.int64(trailing_zeros(leads))
        lead = np.int64(at(array_at(place, 2, np.uint8), 0))
        second = np.int64(at(array_at(place, 2, np.uint8), 1))  # in the block, as more first bytes follow
        alike = equal_to(block, lead) & leads
        is_pair = lead < 0xE0
        number = lead & 0x1F
        after = ONE
        if not is_pair:
            alike &= equal_to(block, second) >> ONE
            number = ALIKE_PAIRS + ((lead & 0x0F) << 6 | second & 0x3F)
            after = TWO
        leads &= ~alike
        entry = load_u64(classes, CLASS_TABLE_SIZE + 8 * number)
        for _ in range(ALIKE_RUNS):
            first = np.int64(U64(0x80) | entry & U64(0x3F))
            run = in_range(block, first, np.int64(entry >> U64(6) & U64(0x7F))) >> after & alike
            run |= run << ONE | run << after
            wanted &= ~run
            kind = entry >> U64(13)
            masks = _with_class(masks, run, kind)
            entry >>= U64(ALIKE_BITS)
    behind = np.int64(0)
    if wanted & ONE != ZERO:
        while behind < 3 and position - behind > base and at(source, position - behind) & 0xC0 == 0x80:
            behind += 1
    bit = np.int64(trailing_zeros(wanted)) - behind
    while wanted != ZERO:
        code_point, size = character_at(source, position + bit, stop)
        run = (ONE << np.uint64(size)) - ONE
        if bit >= 0:
            run <<= np.uint64(bit)
        else:
            run = run >> np.uint64(-bit) | ONE
        kind = np.uint64(at(classes, code_point))
        masks = _with_class(masks, run, kind)
        wanted &= ~run
        bit = np.int64(trailing_zeros(wanted))
    return masks


@helper
def letters_numbers_spaces(view, text, base, position, stop, block, high, valid):
    """Masks of the bytes of letters, numbers and white space among ``high``, the non-ASCII bytes of a block."""
    letter = letter_leads(block, high) & valid
    high &= ~letter
    number = space = ZERO
    if high != ZERO:
        letters, number, space, _, _, _, _ = wide_classes(view, text, base, position, stop, block, high)
        letter |= letters
    return letter, number, space


@helper
def first_bytes_before(bits, bits_before, inner, inner_before):
    """(here, before): the last bytes of characters, moved to their first bytes, in this block and the one before.

    ``inner`` has the bytes after the first of the characters.
    """
    for _ in range(3):
        moved = bits & inner
        moved_before = bits_before & inner_before
        bits = (bits ^ moved) | moved >> ONE
        bits_before = (bits_before ^ moved_before) | moved_before >> ONE | (moved & ONE) << TOP
    return bits, bits_before


@helper
def last_before(starts, block, after, inner, inner_before):
    """Mask of the characters that stand before ``after``; the one in the block before is set in the bitmap.

    ``inner`` has the bytes after the first of such characters.
    """
    last = after >> ONE
    last_there = (after & ONE) << TOP
    if inner | inner_before != ZERO:
        last, last_there = first_bytes_before(last, last_there, inner, inner_before)
    if last_there != ZERO and block > 0:
        put(starts, block - 1, at(starts, block - 1) | last_there)
    return last


@helper
def groups_of_three(number, inner, taken):
    """(starts, taken): where groups of up to three characters begin in runs of numbers.

    ``inner`` has the bytes after the first of all characters. ``taken`` is how many characters (0 to 3) of the last
    group of the block before end it; the new ``taken`` says the same of this block.
    """
    begins = ZERO
    if number & inner != ZERO:  # not all of one byte
        inside = number << ONE
        if taken != 0:
            inside |= ONE
        bits = number & ~inner
        while bits != ZERO:
            bit = bits & (ZERO - bits)
            bits ^= bit
            if inside & bit == ZERO or taken == 3:
                begins |= bit
                taken = np.int64(0)
            taken += 1
        return begins, taken if number >> TOP != ZERO else np.int64(0)
    begins = number & ~(number << ONE)
    if taken != 0 and number & ONE != ZERO:
        begins &= ~ONE
        seed = np.uint64(3 - taken)
        if ~number & ((TWO << seed) - ONE) == ZERO:
            begins |= ONE << seed
    # Bits that are numbers like the three, six, twelve, ... bytes before them.
    step = number & number << ONE
    step &= step << TWO
    if step != ZERO:
        shift = THREE
        while step != ZERO:
            begins |= begins << shift & step
            step &= step << shift
            shift <<= ONE
    if number >> TOP == ZERO:
        return begins, np.int64(0)
    run = np.int64(leading_zeros(~number))
    last = np.int64(leading_zeros(begins))
    return begins, last + 1 if last < run else taken + run


@helper
def number_starts(number, number_before, inner, group, taken):
    """(starts, taken): where pretokens begin in runs of numbers: each ``group``, 1 or 3, of them, or whole runs for 0.

    ``inner`` and ``taken`` are those of :func:`groups_of_three`.
    """
    if number == ZERO:
        return ZERO, np.int64(0)
    if group == 3:
        return groups_of_three(number, inner, taken)
    if group == 1:
        return number & ~inner, np.int64(0)
    return number & ~(number << ONE | number_before), np.int64(0)


@helper
def contraction_bytes(text, position, stop):
    """Bytes of what ``(?i:'s|'t|'re|'ve|'m|'ll|'d)`` matches at the apostrophe ``text[position]``, or 0.

    The address ``text`` is that of the whole text. U+017F is a small ``s`` to it.
    """
    source = array_at(text, stop, np.uint8)
    room = stop - position
    if room < 2:
        return 0
    first = at(source, position + 1) | 32
    if first == 115 or first == 100 or first == 109 or first == 116:
        return 2
    if room < 3:
        return 0
    second = at(source, position + 2)
    if first == 0xE5:
        return 3 if at(source, position + 1) == 0xC5 and second == 0xBF else 0
    second |= 32
    if first == 108 and second == 108:
        return 3
    if (first == 118 or first == 114) and second == 101:
        return 3
    return 0


@helper
def _settle_turns(turns, flat, newline, place):
    r"""(turns, pending): of the places after a line's end, those with no other line end in the same white space.

    ``turns`` begin runs of ``flat``, white space on one line; ``newline`` has the line ends. A run that reaches the end
    of the block is undecided: it is taken out, and its place in the bitmap, ``place`` plus its bit, is ``pending``,
    which else is -1.
    """
    pending = np.int64(-1)
    bits = turns
    while bits != ZERO:
        bit = trailing_zeros(bits)
        bits &= bits - ONE
        end = bit + trailing_zeros(~(flat >> bit))
        if end >= np.uint64(64):
            pending = place + np.int64(bit)
            turns ^= ONE << bit
        elif newline >> end & ONE != ZERO:
            turns ^= ONE << bit
    return turns, pending


@helper
def turns_of_lines(starts, place, flat, newline, line, line_before, pending, followers):
    """(turns, pending): where white space goes on after a line's end and holds no other line end.

    ``flat`` is white space on one line, ``line`` the line ends that are left of ``newline``. ``pending`` is the place
    in the bitmap of a turn whose white space reached the end of the block before, or -1: it is a start if one of
    ``followers`` comes after. ``place`` is that of the block.
    """
    if pending >= 0:
        beyond = trailing_zeros(~flat)
        if beyond < np.uint64(64):
            if followers >> beyond & ONE != ZERO:
                set_bit(starts, pending)
            pending = np.int64(-1)
    turns = flat & (line << ONE | line_before)
    if turns != ZERO and flat & (newline >> ONE | ONE << TOP) != ZERO:
        turns, undecided = _settle_turns(turns, flat, newline, place)
        if undecided >= 0:
            pending = undecided
    return turns, pending

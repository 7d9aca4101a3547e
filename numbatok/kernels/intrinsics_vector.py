"""Vectors in LLVM: masks of the bytes of a block, and several elements read or written at once.

On a target without the instruction (no AVX2) LLVM writes an equivalent sequence. What loads and stores check is told in
:mod:`numbatok.kernels.intrinsics`.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from numbatok.kernels.intrinsics import BYTE_POINTER, I1, I8, I16, I32, I64, element_pointer, item_bytes, splat

HALF_BLOCK = ir.VectorType(I8, 32)


def _copy_intrinsic(size, doc):
    """An intrinsic that copies ``size`` bytes, all of them read before any is written."""

    @intrinsic
    def copy(typingctx, target, target_index, source, source_index):
        signature = types.void(target, types.int64, source, types.int64)

        def codegen(context, builder, signature, args):
            words = ir.VectorType(I64, size // 8)
            read = element_pointer(context, builder, source, args[2], args[3], size)
            write = element_pointer(context, builder, target, args[0], args[1], size)
            load = builder.load(builder.bitcast(read, words.as_pointer()))
            load.align = 1
            builder.store(load, builder.bitcast(write, words.as_pointer())).align = 1
            return context.get_dummy_value()

        return signature, codegen

    copy.__doc__ = doc
    return copy


copy_16_bytes = _copy_intrinsic(
    16, "Copy the 16 bytes at ``source[source_index]`` to ``target[target_index]``, whatever the element types."
)
copy_64_bytes = _copy_intrinsic(64, "Copy 64 bytes as :func:`copy_16_bytes`.")


@intrinsic
def stream_32_bytes(typingctx, target, target_index, source, source_index):
    """Copy the 32 bytes at ``source[source_index]`` to ``target[target_index]``, aligned to 32, past the caches.

    A store of the usual kind reads the line that it writes to, half of a large copy's traffic. Other threads see it
    after :func:`finish_streams`.
    """
    signature = types.void(target, types.int64, source, types.int64)

    def codegen(context, builder, signature, args):
        eight = ir.VectorType(I32, 8)
        read = element_pointer(context, builder, source, args[2], args[3], 32)
        write = element_pointer(context, builder, target, args[0], args[1], 32)
        load = builder.load(builder.bitcast(read, eight.as_pointer()))
        load.align = 1
        store = builder.store(load, builder.bitcast(write, eight.as_pointer()))
        store.align = 32
        store.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(I32, 1)]))
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def finish_streams(typingctx):
    """Let other threads see what :func:`stream_32_bytes` has stored."""

    def codegen(context, builder, signature, args):
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def copy_masked_16(typingctx, target, target_index, source, source_index, mask):
    """Copy 16 bytes as :func:`copy_16_bytes`, of which only the bits of ``mask``, a tuple of two words, are kept."""
    signature = types.void(target, types.int64, source, types.int64, types.UniTuple(types.uint64, 2))

    def codegen(context, builder, signature, args):
        pair = ir.VectorType(I64, 2)
        read = element_pointer(context, builder, source, args[2], args[3], 16)
        write = element_pointer(context, builder, target, args[0], args[1], 16)
        words = ir.Constant(pair, ir.Undefined)
        for place, word in enumerate(cgutils.unpack_tuple(builder, args[4], 2)):
            words = builder.insert_element(words, word, ir.Constant(I32, place))
        load = builder.load(builder.bitcast(read, pair.as_pointer()))
        load.align = 1
        builder.store(builder.and_(load, words), builder.bitcast(write, pair.as_pointer())).align = 1
        return context.get_dummy_value()

    return signature, codegen


def _mask_of_block(builder, pointers, low, count, case_bit):
    """Bitmap of the bytes of two halves of 32, at ``pointers``, where ``((byte | case_bit) - low) < count``.

    Two halves, put together as integers: were it one vector of 64 bits, LLVM would carry that across branches bit by
    bit, at 1 ns a byte.
    """
    halves = []
    for pointer in pointers:
        block = builder.load(builder.bitcast(pointer, HALF_BLOCK.as_pointer()))
        block.align = 1
        folded = builder.or_(block, splat(builder, case_bit, HALF_BLOCK))
        shifted = builder.sub(folded, splat(builder, low, HALF_BLOCK))
        inside = builder.icmp_unsigned("<", shifted, splat(builder, count, HALF_BLOCK))
        halves.append(builder.zext(builder.bitcast(inside, I32), I64))
    return builder.or_(halves[0], builder.shl(halves[1], ir.Constant(I64, 32)))


@intrinsic
def range_mask(typingctx, array, index, low, count, case_bit):
    """Bitmap of the 64 bytes from ``array[index]`` on: bit i is set where ``((b | case_bit) - low) < count``.

    All arithmetic is on uint8, so one call tests one range of bytes; ``case_bit=32`` folds ASCII letters, 0 folds
    nothing.
    """
    signature = types.uint64(array, types.int64, types.uint8, types.uint8, types.uint8)

    def codegen(context, builder, signature, args):
        array_value, index_value, low, count, case_bit = args
        places = [builder.add(index_value, ir.Constant(I64, first)) for first in (0, 32)]
        pointers = [element_pointer(context, builder, array, array_value, place, 32) for place in places]
        return _mask_of_block(builder, pointers, low, count, case_bit)

    return signature, codegen


def _halves_at(builder, address):
    """Pointers to the two halves of the block of 64 bytes at ``address``."""
    places = [builder.add(address, ir.Constant(I64, first)) for first in (0, 32)]
    return [builder.inttoptr(place, BYTE_POINTER) for place in places]


@intrinsic
def in_range(typingctx, address, low, count):
    """Bitmap of the 64 bytes at ``address``: bit i is set where ``low <= byte < low + count``."""
    signature = types.uint64(types.int64, types.int64, types.int64)

    def codegen(context, builder, signature, args):
        low, count = (builder.trunc(value, I8) for value in args[1:])
        return _mask_of_block(builder, _halves_at(builder, args[0]), low, count, ir.Constant(I8, 0))

    return signature, codegen


@intrinsic
def equal_to(typingctx, address, byte):
    """Bitmap of the 64 bytes at ``address``: bit i is set where the byte is ``byte``."""
    signature = types.uint64(types.int64, types.int64)

    def codegen(context, builder, signature, args):
        low, count = builder.trunc(args[1], I8), ir.Constant(I8, 1)
        return _mask_of_block(builder, _halves_at(builder, args[0]), low, count, ir.Constant(I8, 0))

    return signature, codegen


@intrinsic
def ascii_letters(typingctx, address):
    """Bitmap of the ASCII letters among the 64 bytes at ``address``."""
    signature = types.uint64(types.int64)

    def codegen(context, builder, signature, args):
        low, count, case_bit = (ir.Constant(I8, value) for value in (97, 26, 32))
        return _mask_of_block(builder, _halves_at(builder, args[0]), low, count, case_bit)

    return signature, codegen


@intrinsic
def gaps_over(typingctx, array, index, limit):
    """Bitmap of the 64 gaps between 65 uint16 from ``array[index]`` on: bit i is set where gap i is over ``limit``."""
    signature = types.uint64(array, types.int64, types.uint16)

    def codegen(context, builder, signature, args):
        array, index, limit = args
        half = ir.VectorType(I16, 32)
        wide = splat(builder, limit, half)
        bits = []
        for first in (0, 32):
            ends = []
            for place in (first, first + 1):
                at_place = builder.add(index, ir.Constant(I64, place))
                pointer = element_pointer(context, builder, signature.args[0], array, at_place, 64)
                load = builder.load(builder.bitcast(pointer, half.as_pointer()))
                load.align = 2
                ends.append(load)
            over = builder.icmp_unsigned(">", builder.sub(ends[1], ends[0]), wide)
            bits.append(builder.zext(builder.bitcast(over, I32), I64))
        return builder.or_(bits[0], builder.shl(bits[1], ir.Constant(I64, 32)))

    return signature, codegen


@intrinsic
def words_above(typingctx, array, index, shift, wanted):
    """Bitmap of the eight uint64 from ``array[index]`` on: bit i is set where ``word >> shift == wanted``."""
    signature = types.uint64(array, types.int64, types.uint64, types.uint64)

    def codegen(context, builder, signature, args):
        array, index, shift, wanted = args
        eight = ir.VectorType(I64, 8)
        pointer = element_pointer(context, builder, signature.args[0], array, index, 64)
        words = builder.load(builder.bitcast(pointer, eight.as_pointer()))
        words.align = 8
        upper = builder.lshr(words, splat(builder, shift, eight))
        found = builder.icmp_unsigned("==", upper, splat(builder, wanted, eight))
        return builder.zext(builder.bitcast(found, I8), I64)

    return signature, codegen


@intrinsic
def pair_in_256(typingctx, array, index, first, offset, second):
    """Whether any of the 256 bytes from ``array[index]`` on is ``first``, with ``second`` so many bytes after it."""
    signature = types.boolean(array, types.int64, types.uint8, types.int64, types.uint8)

    def codegen(context, builder, signature, args):
        array, index, first, offset, second = args
        block = ir.VectorType(I8, 64)
        early = element_pointer(context, builder, signature.args[0], array, index, 256)
        late = element_pointer(context, builder, signature.args[0], array, builder.add(index, offset), 256)
        wanted = [splat(builder, byte, block) for byte in (first, second)]
        least = None
        for part in range(4):
            differ = None
            for pointer, byte in zip((early, late), wanted, strict=True):
                place = builder.gep(pointer, [ir.Constant(I64, 64 * part)])
                values = builder.load(builder.bitcast(place, block.as_pointer()))
                values.align = 1
                other = builder.xor(values, byte)
                differ = other if differ is None else builder.or_(differ, other)
            if least is None:
                least = differ
            else:
                least = builder.select(builder.icmp_unsigned("<", differ, least), differ, least)
        found = builder.bitcast(builder.icmp_unsigned("==", least, ir.Constant(block, [0] * 64)), I64)
        return builder.icmp_unsigned("!=", found, ir.Constant(I64, 0))

    return signature, codegen


@intrinsic
def narrow_16(typingctx, target, target_index, source, source_index):
    """Write the low bytes of 16 elements of ``source`` to ``target`` (uint8); return how many lead below 0x80."""
    signature = types.int64(target, types.int64, source, types.int64)

    def codegen(context, builder, signature, args):
        element = context.get_data_type(source.dtype)
        lanes = ir.VectorType(element, 16)
        itemsize = item_bytes(source)
        read = element_pointer(context, builder, source, args[2], args[3], 16 * itemsize)
        write = element_pointer(context, builder, target, args[0], args[1], 16)
        values = builder.load(builder.bitcast(read, lanes.as_pointer()))
        values.align = itemsize
        bytes_ = values if itemsize == 1 else builder.trunc(values, ir.VectorType(I8, 16))
        builder.store(bytes_, builder.bitcast(write, ir.VectorType(I8, 16).as_pointer())).align = 1
        strange = builder.icmp_unsigned(">", values, ir.Constant(lanes, [0x7F] * 16))
        bits = builder.or_(builder.zext(builder.bitcast(strange, I16), I64), ir.Constant(I64, 1 << 16))
        count_type = ir.FunctionType(I64, [I64, I1])
        count = cgutils.get_or_insert_function(builder.module, count_type, "llvm.cttz.i64")
        return builder.call(count, [bits, ir.Constant(I1, 1)])

    return signature, codegen


@intrinsic
def narrow_64(typingctx, target, target_index, source, source_index):
    """Write the low bytes of 64 elements of ``source`` to ``target`` (uint8); return whether all are below 0x80."""
    signature = types.boolean(target, types.int64, source, types.int64)

    def codegen(context, builder, signature, args):
        element = context.get_data_type(source.dtype)
        lanes = ir.VectorType(element, 16)
        itemsize = item_bytes(source)
        read = element_pointer(context, builder, source, args[2], args[3], 64 * itemsize)
        write = element_pointer(context, builder, target, args[0], args[1], 64)
        read = builder.bitcast(read, lanes.as_pointer())
        write = builder.bitcast(write, ir.VectorType(I8, 16).as_pointer())
        union = None
        for part in range(4):
            values = builder.load(builder.gep(read, [ir.Constant(I64, part)]))
            values.align = itemsize
            bytes_ = values if itemsize == 1 else builder.trunc(values, ir.VectorType(I8, 16))
            builder.store(bytes_, builder.gep(write, [ir.Constant(I64, part)])).align = 1
            union = values if union is None else builder.or_(union, values)
        strange = builder.icmp_unsigned(">", union, ir.Constant(lanes, [0x7F] * 16))
        return builder.icmp_unsigned("==", builder.bitcast(strange, I16), ir.Constant(I16, 0))

    return signature, codegen


@intrinsic
def put_16_by_three(typingctx, target, target_index, source, source_index):
    """Write 16 characters of ``source`` (uint16, uint32) as three bytes of UTF-8 each; return whether all take three.

    52 bytes of ``target`` are written, the last four of them without meaning. Surrogates count as others.
    """
    signature = types.boolean(target, types.int64, source, types.int64)

    def codegen(context, builder, signature, args):
        itemsize = item_bytes(source)
        given = ir.VectorType(context.get_data_type(source.dtype), 16)
        lanes = ir.VectorType(I32, 16)

        def every(value):
            return ir.Constant(lanes, [value] * 16)

        read = element_pointer(context, builder, source, args[2], args[3], 16 * itemsize)
        write = element_pointer(context, builder, target, args[0], args[1], 52)
        points = builder.load(builder.bitcast(read, given.as_pointer()))
        points.align = itemsize
        points = builder.zext(points, lanes) if itemsize < 4 else points
        first = builder.or_(builder.lshr(points, every(12)), every(0x8080E0))
        second = builder.and_(builder.shl(points, every(2)), every(0x3F00))
        third = builder.and_(builder.shl(points, every(16)), every(0x3F0000))
        packed = builder.bitcast(builder.or_(builder.or_(first, second), third), ir.VectorType(I8, 64))
        for quarter in range(4):  # 12 of 16 bytes each, inside a lane of 128 bits, where shuffling is cheap
            order = [16 * quarter + 4 * (byte // 3) + byte % 3 for byte in range(12)] + [16 * quarter + 3] * 4
            part = builder.shuffle_vector(
                packed, ir.Constant(packed.type, ir.Undefined), ir.Constant(ir.VectorType(I32, 16), order)
            )
            place = builder.gep(write, [ir.Constant(I64, 12 * quarter)])
            builder.store(part, builder.bitcast(place, part.type.as_pointer())).align = 1
        # Those of three bytes are 0x800 to 0xFFFF without 0xD800 to 0xDFFF.
        outside = builder.icmp_unsigned(">", builder.sub(points, every(0x800)), every(0xFFFF - 0x800))
        surrogate = builder.icmp_unsigned("<", builder.sub(points, every(0xD800)), every(0x800))
        strange = builder.bitcast(builder.or_(outside, surrogate), I16)
        return builder.icmp_unsigned("==", strange, ir.Constant(I16, 0))

    return signature, codegen


def _selects_bytes(context):
    """Whether the target puts the bytes that a mask selects side by side in one instruction."""
    return "+avx512vbmi2" in context.codegen().magic_tuple()[2].split(",")


def _select_bytes(builder, block, mask):
    """The bytes of a vector of 64 that a mask of 64 bits selects, side by side, then zeros."""
    compress_type = ir.FunctionType(block.type, [block.type, block.type, mask.type])
    compress = cgutils.get_or_insert_function(builder.module, compress_type, "llvm.x86.avx512.mask.compress.v64i8")
    return builder.call(compress, [block, ir.Constant(block.type, [0] * 64), mask])


@intrinsic
def selects_bytes(typingctx):
    """Whether :func:`put_16_characters` and :func:`put_positions` do anything: a constant of the processor."""

    def codegen(context, builder, signature, args):
        return ir.Constant(I1, _selects_bytes(context))

    return types.boolean(), codegen


@intrinsic
def put_16_characters(typingctx, target, target_index, source, source_index, skipped):
    """Write 16 characters of ``source`` (uint8, uint16, uint32) but the first ``skipped`` as UTF-8; return their bytes.

    64 bytes of ``target`` are written, those after the characters without meaning. Returns 0 where a surrogate or what
    is no code point is among the 16, and always on a processor that has no instruction to put the bytes that a mask
    selects side by side (AVX-512 VBMI2): of such a vector LLVM would make a branch for each byte.
    """
    signature = types.int64(target, types.int64, source, types.int64, types.int64)

    def codegen(context, builder, signature, args):
        if not _selects_bytes(context):
            return ir.Constant(I64, 0)
        itemsize = item_bytes(source)
        given = ir.VectorType(context.get_data_type(source.dtype), 16)
        lanes = ir.VectorType(I32, 16)
        block = ir.VectorType(I8, 64)

        def every(value):
            return ir.Constant(lanes, [value] * 16)

        read = element_pointer(context, builder, source, args[2], args[3], 16 * itemsize)
        write = element_pointer(context, builder, target, args[0], args[1], 64)
        points = builder.load(builder.bitcast(read, given.as_pointer()))
        points.align = itemsize
        points = builder.zext(points, lanes) if itemsize < 4 else points
        # Each in its lane, first byte lowest: the six bits of each byte but the first, and above them its mark.
        encoded, kept = points, every(0xFF)
        for size, least, mark in ((2, 0x80, 0x80C0), (3, 0x800, 0x8080E0), (4, 0x10000, 0x808080F0)):
            if least >> 8 * itemsize != 0:
                continue
            parts = builder.or_(builder.lshr(points, every(6 * (size - 1))), every(mark))
            for place in range(1, size):
                shift = 8 * place - 6 * (size - 1 - place)
                moved = builder.shl(points, every(shift)) if shift >= 0 else builder.lshr(points, every(-shift))
                parts = builder.or_(parts, builder.and_(moved, every(0x3F << 8 * place)))
            is_longer = builder.icmp_unsigned(">=", points, every(least))
            encoded = builder.select(is_longer, parts, encoded)
            kept = builder.select(is_longer, every((1 << 8 * size) - 1), kept)
        selected = builder.icmp_unsigned("!=", builder.bitcast(kept, block), ir.Constant(block, [0] * 64))
        lane_bits = builder.shl(ir.Constant(I64, -1), builder.shl(args[4], ir.Constant(I64, 2)))
        bits = builder.and_(builder.bitcast(selected, I64), lane_bits)
        mask = builder.bitcast(bits, selected.type)
        packed = _select_bytes(builder, builder.bitcast(encoded, block), mask)
        builder.store(packed, builder.bitcast(write, block.as_pointer())).align = 1
        count_type = ir.FunctionType(I64, [I64])
        count = cgutils.get_or_insert_function(builder.module, count_type, "llvm.ctpop.i64")
        size = builder.call(count, [bits])
        if itemsize == 1:
            return size
        wrong = builder.icmp_unsigned("<", builder.sub(points, every(0xD800)), every(0x800))
        if itemsize == 4:
            wrong = builder.or_(wrong, builder.icmp_unsigned(">", points, every(0x10FFFF)))
        fine = builder.icmp_unsigned("==", builder.bitcast(wrong, I16), ir.Constant(I16, 0))
        return builder.select(fine, size, ir.Constant(I64, 0))

    return signature, codegen


def _load_16(context, builder, array, args, first=0):
    """The 16 elements of 32 bits from ``array[index + first]`` on, where ``args`` are the two, as a vector."""
    index = builder.add(args[1], ir.Constant(I64, first))
    pointer = element_pointer(context, builder, array, args[0], index, 64)
    values = builder.load(builder.bitcast(pointer, ir.VectorType(I32, 16).as_pointer()))
    values.align = 4
    return values


def _least(builder, values):
    """The smallest element of a vector of 16, unsigned."""
    reduce_type = ir.FunctionType(I32, [values.type])
    reduce = cgutils.get_or_insert_function(builder.module, reduce_type, "llvm.vector.reduce.umin.v16i32")
    return builder.call(reduce, [values])


@intrinsic
def smallest_of_16(typingctx, array, index):
    """``value << 32 | place`` of the smallest of the 16 elements from ``array[index]`` on (uint32).

    ``place`` counts from ``index``; of equal elements the first.
    """
    signature = types.uint64(array, types.int64)

    def codegen(context, builder, signature, args):
        values = _load_16(context, builder, array, args)
        smallest = _least(builder, values)
        equal = builder.icmp_unsigned("==", values, splat(builder, smallest, values.type))
        lowest_type = ir.FunctionType(I16, [I16, I1])
        lowest = cgutils.get_or_insert_function(builder.module, lowest_type, "llvm.cttz.i16")
        place = builder.call(lowest, [builder.bitcast(equal, I16), ir.Constant(I1, 1)])
        high = builder.shl(builder.zext(smallest, I64), ir.Constant(I64, 32))
        return builder.or_(high, builder.zext(place, I64))

    return signature, codegen


@intrinsic
def least_of_16(typingctx, array, index):
    """The smallest of the 16 elements from ``array[index]`` on (uint32)."""
    signature = types.uint32(array, types.int64)

    def codegen(context, builder, signature, args):
        return _least(builder, _load_16(context, builder, array, args))

    return signature, codegen


@intrinsic
def least_of_32(typingctx, array, index):
    """The smallest of the 32 elements from ``array[index]`` on (uint32)."""
    signature = types.uint32(array, types.int64)

    def codegen(context, builder, signature, args):
        near = _load_16(context, builder, array, args)
        far = _load_16(context, builder, array, args, 16)
        return _least(builder, builder.select(builder.icmp_unsigned("<", near, far), near, far))

    return signature, codegen


@intrinsic
def put_8_positions(typingctx, array, index, packed, base):
    """``array[index + j] = base + byte j of packed`` for j in 0..7 (array of uint16): one 16-byte store."""
    signature = types.void(array, types.int64, types.uint64, types.uint16)

    def codegen(context, builder, signature, args):
        lanes = ir.VectorType(I16, 8)
        pointer = element_pointer(context, builder, array, args[0], args[1], 16)
        wide = builder.zext(builder.bitcast(args[2], ir.VectorType(I8, 8)), lanes)
        total = builder.add(wide, splat(builder, args[3], lanes))
        builder.store(total, builder.bitcast(pointer, lanes.as_pointer())).align = 2
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def put_positions(typingctx, array, index, bits, base):
    """``array[index + j] = base + place of the j-th set bit of bits`` (array of uint16): 64 elements are written.

    Does nothing on a processor without :func:`selects_bytes`.
    """
    signature = types.void(array, types.int64, types.uint64, types.uint16)

    def codegen(context, builder, signature, args):
        if not _selects_bytes(context):
            return context.get_dummy_value()
        places = ir.Constant(ir.VectorType(I8, 64), list(range(64)))
        selected = _select_bytes(builder, places, builder.bitcast(args[2], ir.VectorType(I1, 64)))
        part_type = ir.VectorType(I16, 16)
        pointer = element_pointer(context, builder, array, args[0], args[1], 128)
        pointer = builder.bitcast(pointer, part_type.as_pointer())

        def put(part):
            order = ir.Constant(ir.VectorType(I32, 16), list(range(16 * part, 16 * part + 16)))
            wide = builder.zext(builder.shuffle_vector(selected, places, order), part_type)
            total = builder.add(wide, splat(builder, args[3], part_type))
            store = builder.gep(pointer, [ir.Constant(I64, part)])
            builder.store(total, store).align = 2

        put(0)
        put(1)
        count_type = ir.FunctionType(I64, [I64])
        count = cgutils.get_or_insert_function(builder.module, count_type, "llvm.ctpop.i64")
        more = builder.icmp_unsigned(">", builder.call(count, [args[2]]), ir.Constant(I64, 32))
        with builder.if_then(more, likely=False):
            put(2)
            put(3)
        return context.get_dummy_value()

    return signature, codegen

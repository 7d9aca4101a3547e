"""LLVM instructions that Numba has no word for: the only module that imports llvmlite.

Every function here is a ``numba.extending.intrinsic``: it emits a few LLVM instructions in place, needs no compiler
besides Numba's own, and can be cached. On a target without the instruction (no AVX2, no prefetch) LLVM writes an
equivalent sequence, so nothing here asks which processor it runs on.

Loads and stores do not check their index, which saves up to 4 ns a pretoken in the key loop. With
``NUMBA_BOUNDSCHECK=1`` the same functions check and raise IndexError, so the tests can run every kernel guarded.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

_I1 = ir.IntType(1)
_I8 = ir.IntType(8)
_I16 = ir.IntType(16)
_I32 = ir.IntType(32)
_I64 = ir.IntType(64)
_BYTE_POINTER = _I8.as_pointer()
_HALF_BLOCK = ir.VectorType(_I8, 32)


def _element_pointer(context, builder, array_type, array, index, element_bytes):
    """Address of ``array[index]``; guarded for ``element_bytes`` bytes from there when bounds are checked."""
    parts = context.make_array(array_type)(context, builder, array)
    pointer = builder.gep(parts.data, [index], inbounds=True)
    if config.BOUNDSCHECK:
        itemsize = context.get_abi_sizeof(context.get_data_type(array_type.dtype))
        used = ir.Constant(_I64, -(-element_bytes // itemsize))
        end = builder.add(index, used)
        bad = builder.or_(
            builder.icmp_signed("<", index, ir.Constant(_I64, 0)),
            builder.icmp_signed(">", end, parts.nitems),
        )
        with cgutils.if_unlikely(builder, bad):
            context.call_conv.return_user_exc(builder, IndexError, ("kernel access outside its array",))
    return pointer


def _splat(builder, value, vector_type):
    """A vector with ``value`` in every lane."""
    undefined = ir.Constant(vector_type, ir.Undefined)
    lane = builder.insert_element(undefined, value, ir.Constant(_I32, 0))
    zeros = ir.Constant(ir.VectorType(_I32, vector_type.count), [0] * vector_type.count)
    return builder.shuffle_vector(lane, undefined, zeros)


def _array_over(context, builder, array_type, address, length):
    """A NumPy array value over memory that nobody owns through it."""
    array = context.make_array(array_type)(context, builder)
    item = context.get_data_type(array_type.dtype)
    itemsize = ir.Constant(_I64, context.get_abi_sizeof(item))
    populate_array(
        array,
        data=builder.inttoptr(address, item.as_pointer()),
        shape=cgutils.pack_array(builder, [length]),
        strides=cgutils.pack_array(builder, [itemsize]),
        itemsize=itemsize,
        meminfo=None,
    )
    return array._getvalue()


@intrinsic
def array_at(typingctx, address, length, dtype):
    """One-dimensional array of ``length`` elements of ``dtype`` over the memory at ``address``; owns nothing."""
    array_type = types.Array(dtype.instance_type, 1, "C")
    signature = array_type(types.int64, types.int64, dtype)

    def codegen(context, builder, signature, args):
        return _array_over(context, builder, array_type, args[0], args[1])

    return signature, codegen


# Records of int64 fields: see dtypes.py. As functions of Numba these three took half of all compile time.


def _field_pointer(builder, record, index):
    return builder.gep(builder.inttoptr(record, _I64.as_pointer()), [index])


@intrinsic
def field(typingctx, record, index):
    """Field ``index`` of the record of int64 at address ``record``."""
    signature = types.int64(types.int64, types.int64)

    def codegen(context, builder, signature, args):
        return builder.load(_field_pointer(builder, *args))

    return signature, codegen


@intrinsic
def set_field(typingctx, record, index, value):
    """Write field ``index`` of the record of int64 at address ``record``."""
    signature = types.void(types.int64, types.int64, types.int64)

    def codegen(context, builder, signature, args):
        builder.store(args[2], _field_pointer(builder, args[0], args[1]))
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def table(typingctx, record, index, dtype):
    """The array of ``dtype`` whose address and length are fields ``index`` and ``index + 1`` of a record."""
    array_type = types.Array(dtype.instance_type, 1, "C")
    signature = array_type(types.int64, types.int64, dtype)

    def codegen(context, builder, signature, args):
        record, index, _ = args
        address = builder.load(_field_pointer(builder, record, index))
        length = builder.load(_field_pointer(builder, record, builder.add(index, ir.Constant(_I64, 1))))
        return _array_over(context, builder, array_type, address, length)

    return signature, codegen


@intrinsic
def at(typingctx, array, index):
    """``array[index]`` without a bounds check or wraparound."""
    signature = array.dtype(array, types.int64)

    def codegen(context, builder, signature, args):
        itemsize = context.get_abi_sizeof(context.get_data_type(array.dtype))
        return builder.load(_element_pointer(context, builder, array, *args, itemsize))

    return signature, codegen


@intrinsic
def at_sum(typingctx, array, early, late):
    """``array[early + late]`` without a check, for a loop in which ``late`` depends on the element loaded before.

    Its address is that of ``early`` plus ``late``, so that one addition less stands between the loads.
    """
    signature = array.dtype(array, types.int64, types.int64)

    def codegen(context, builder, signature, args):
        parts = context.make_array(array)(context, builder, args[0])
        if config.BOUNDSCHECK:
            index = builder.add(args[1], args[2])
            itemsize = context.get_abi_sizeof(context.get_data_type(array.dtype))
            return builder.load(_element_pointer(context, builder, array, args[0], index, itemsize))
        return builder.load(builder.gep(builder.gep(parts.data, [args[1]]), [args[2]]))

    return signature, codegen


@intrinsic
def put(typingctx, array, index, value):
    """``array[index] = value`` without a bounds check or wraparound."""
    signature = types.void(array, types.int64, array.dtype)

    def codegen(context, builder, signature, args):
        itemsize = context.get_abi_sizeof(context.get_data_type(array.dtype))
        builder.store(args[2], _element_pointer(context, builder, array, args[0], args[1], itemsize))
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def load_u64(typingctx, array, index):
    """The eight bytes from ``array[index]`` on (uint8), as one little-endian uint64, at any alignment."""
    signature = types.uint64(array, types.int64)

    def codegen(context, builder, signature, args):
        pointer = _element_pointer(context, builder, array, *args, 8)
        load = builder.load(builder.bitcast(pointer, _I64.as_pointer()))
        load.align = 1
        return load

    return signature, codegen


@intrinsic
def store_u64(typingctx, array, index, value):
    """Write ``value`` as eight bytes from ``array[index]`` on (uint8), at any alignment."""
    signature = types.void(array, types.int64, types.uint64)

    def codegen(context, builder, signature, args):
        pointer = _element_pointer(context, builder, array, args[0], args[1], 8)
        store = builder.store(args[2], builder.bitcast(pointer, _I64.as_pointer()))
        store.align = 1
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def copy_16_bytes(typingctx, target, target_index, source, source_index):
    """Copy the 16 bytes at ``source[source_index]`` to ``target[target_index]``, whatever the element types."""
    signature = types.void(target, types.int64, source, types.int64)

    def codegen(context, builder, signature, args):
        pair = ir.VectorType(_I64, 2)
        read = _element_pointer(context, builder, source, args[2], args[3], 16)
        write = _element_pointer(context, builder, target, args[0], args[1], 16)
        load = builder.load(builder.bitcast(read, pair.as_pointer()))
        load.align = 1
        builder.store(load, builder.bitcast(write, pair.as_pointer())).align = 1
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def stream_32_bytes(typingctx, target, target_index, source, source_index):
    """Copy the 32 bytes at ``source[source_index]`` to ``target[target_index]``, aligned to 32, past the caches.

    A store of the usual kind reads the line that it writes to, half of a large copy's traffic. Other threads see it
    after :func:`finish_streams`.
    """
    signature = types.void(target, types.int64, source, types.int64)

    def codegen(context, builder, signature, args):
        eight = ir.VectorType(_I32, 8)
        read = _element_pointer(context, builder, source, args[2], args[3], 32)
        write = _element_pointer(context, builder, target, args[0], args[1], 32)
        load = builder.load(builder.bitcast(read, eight.as_pointer()))
        load.align = 1
        store = builder.store(load, builder.bitcast(write, eight.as_pointer()))
        store.align = 32
        store.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(_I32, 1)]))
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
def put_masked_16(typingctx, target, target_index, source, source_index, rows, row, mixer):
    """Write 16 bytes of ``source`` (uint8), masked and tagged, as ``target[target_index]`` and the next (uint64).

    Row ``row`` of ``rows`` (uint64) has four words: two of the mask, two of the tag. Returns the words written, (low,
    high), xor the two of ``mixer``, a tuple of literals: as a vector they stay in a register.
    """
    pair_type = types.UniTuple(types.uint64, 2)
    signature = pair_type(target, types.int64, source, types.int64, rows, types.int64, pair_type)

    def codegen(context, builder, signature, args):
        pair = ir.VectorType(_I64, 2)

        def pair_at(array_type, array, index):
            pointer = _element_pointer(context, builder, array_type, array, index, 16)
            return builder.bitcast(pointer, pair.as_pointer())

        target_value, target_place, source_value, source_place, rows_value, row_value, mixer_value = args
        words = builder.mul(row_value, ir.Constant(_I64, 4))
        loads = []
        for array_type, array, index in (
            (source, source_value, source_place),
            (rows, rows_value, words),
            (rows, rows_value, builder.add(words, ir.Constant(_I64, 2))),
        ):
            load = builder.load(pair_at(array_type, array, index))
            load.align = 1 if array_type is source else 8
            loads.append(load)
        key = builder.or_(builder.and_(loads[0], loads[1]), loads[2])
        builder.store(key, pair_at(target, target_value, target_place)).align = 8
        mixed = ir.Constant(pair, ir.Undefined)
        for place, word in enumerate(cgutils.unpack_tuple(builder, mixer_value, 2)):
            mixed = builder.insert_element(mixed, word, ir.Constant(_I32, place))
        mixed = builder.xor(key, mixed)
        halves = [builder.extract_element(mixed, ir.Constant(_I32, place)) for place in (0, 1)]
        return context.make_tuple(builder, signature.return_type, halves)

    return signature, codegen


@intrinsic
def multiply_fold(typingctx, left, right):
    """Upper half xor lower half of the 128-bit product of two uint64."""
    signature = types.uint64(types.uint64, types.uint64)

    def codegen(context, builder, signature, args):
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        high = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), _I64)
        return builder.xor(high, builder.trunc(product, _I64))

    return signature, codegen


def _mask_of_block(builder, pointers, low, count, case_bit):
    """Bitmap of the bytes of two halves of 32, at ``pointers``, where ``((byte | case_bit) - low) < count``.

    Two halves, put together as integers: were it one vector of 64 bits, LLVM would carry that across branches bit by
    bit, at 1 ns a byte.
    """
    halves = []
    for pointer in pointers:
        block = builder.load(builder.bitcast(pointer, _HALF_BLOCK.as_pointer()))
        block.align = 1
        folded = builder.or_(block, _splat(builder, case_bit, _HALF_BLOCK))
        shifted = builder.sub(folded, _splat(builder, low, _HALF_BLOCK))
        inside = builder.icmp_unsigned("<", shifted, _splat(builder, count, _HALF_BLOCK))
        halves.append(builder.zext(builder.bitcast(inside, _I32), _I64))
    return builder.or_(halves[0], builder.shl(halves[1], ir.Constant(_I64, 32)))


@intrinsic
def range_mask(typingctx, array, index, low, count, case_bit):
    """Bitmap of the 64 bytes from ``array[index]`` on: bit i is set where ``((b | case_bit) - low) < count``.

    All arithmetic is on uint8, so one call tests one range of bytes; ``case_bit=32`` folds ASCII letters, 0 folds
    nothing.
    """
    signature = types.uint64(array, types.int64, types.uint8, types.uint8, types.uint8)

    def codegen(context, builder, signature, args):
        array_value, index_value, low, count, case_bit = args
        places = [builder.add(index_value, ir.Constant(_I64, first)) for first in (0, 32)]
        pointers = [_element_pointer(context, builder, array, array_value, place, 32) for place in places]
        return _mask_of_block(builder, pointers, low, count, case_bit)

    return signature, codegen


def _halves_at(builder, address):
    """Pointers to the two halves of the block of 64 bytes at ``address``."""
    places = [builder.add(address, ir.Constant(_I64, first)) for first in (0, 32)]
    return [builder.inttoptr(place, _BYTE_POINTER) for place in places]


@intrinsic
def in_range(typingctx, address, low, count):
    """Bitmap of the 64 bytes at ``address``: bit i is set where ``low <= byte < low + count``."""
    signature = types.uint64(types.int64, types.int64, types.int64)

    def codegen(context, builder, signature, args):
        low, count = (builder.trunc(value, _I8) for value in args[1:])
        return _mask_of_block(builder, _halves_at(builder, args[0]), low, count, ir.Constant(_I8, 0))

    return signature, codegen


@intrinsic
def equal_to(typingctx, address, byte):
    """Bitmap of the 64 bytes at ``address``: bit i is set where the byte is ``byte``."""
    signature = types.uint64(types.int64, types.int64)

    def codegen(context, builder, signature, args):
        low, count = builder.trunc(args[1], _I8), ir.Constant(_I8, 1)
        return _mask_of_block(builder, _halves_at(builder, args[0]), low, count, ir.Constant(_I8, 0))

    return signature, codegen


@intrinsic
def ascii_letters(typingctx, address):
    """Bitmap of the ASCII letters among the 64 bytes at ``address``."""
    signature = types.uint64(types.int64)

    def codegen(context, builder, signature, args):
        low, count, case_bit = (ir.Constant(_I8, value) for value in (97, 26, 32))
        return _mask_of_block(builder, _halves_at(builder, args[0]), low, count, case_bit)

    return signature, codegen


@intrinsic
def pair_in_256(typingctx, array, index, first, offset, second):
    """Whether any of the 256 bytes from ``array[index]`` on is ``first``, with ``second`` so many bytes after it."""
    signature = types.boolean(array, types.int64, types.uint8, types.int64, types.uint8)

    def codegen(context, builder, signature, args):
        array, index, first, offset, second = args
        block = ir.VectorType(_I8, 64)
        early = _element_pointer(context, builder, signature.args[0], array, index, 256)
        late = _element_pointer(context, builder, signature.args[0], array, builder.add(index, offset), 256)
        wanted = [_splat(builder, byte, block) for byte in (first, second)]
        least = None
        for part in range(4):
            differ = None
            for pointer, byte in zip((early, late), wanted, strict=True):
                place = builder.gep(pointer, [ir.Constant(_I64, 64 * part)])
                values = builder.load(builder.bitcast(place, block.as_pointer()))
                values.align = 1
                other = builder.xor(values, byte)
                differ = other if differ is None else builder.or_(differ, other)
            if least is None:
                least = differ
            else:
                least = builder.select(builder.icmp_unsigned("<", differ, least), differ, least)
        found = builder.bitcast(builder.icmp_unsigned("==", least, ir.Constant(block, [0] * 64)), _I64)
        return builder.icmp_unsigned("!=", found, ir.Constant(_I64, 0))

    return signature, codegen


@intrinsic
def narrow_16(typingctx, target, target_index, source, source_index):
    """Write the low bytes of 16 elements of ``source`` to ``target`` (uint8); return how many lead below 0x80."""
    signature = types.int64(target, types.int64, source, types.int64)

    def codegen(context, builder, signature, args):
        element = context.get_data_type(source.dtype)
        lanes = ir.VectorType(element, 16)
        itemsize = context.get_abi_sizeof(element)
        read = _element_pointer(context, builder, source, args[2], args[3], 16 * itemsize)
        write = _element_pointer(context, builder, target, args[0], args[1], 16)
        values = builder.load(builder.bitcast(read, lanes.as_pointer()))
        values.align = itemsize
        bytes_ = values if itemsize == 1 else builder.trunc(values, ir.VectorType(_I8, 16))
        builder.store(bytes_, builder.bitcast(write, ir.VectorType(_I8, 16).as_pointer())).align = 1
        strange = builder.icmp_unsigned(">", values, ir.Constant(lanes, [0x7F] * 16))
        bits = builder.or_(builder.zext(builder.bitcast(strange, _I16), _I64), ir.Constant(_I64, 1 << 16))
        count_type = ir.FunctionType(_I64, [_I64, _I1])
        count = cgutils.get_or_insert_function(builder.module, count_type, "llvm.cttz.i64")
        return builder.call(count, [bits, ir.Constant(_I1, 1)])

    return signature, codegen


@intrinsic
def narrow_64(typingctx, target, target_index, source, source_index):
    """Write the low bytes of 64 elements of ``source`` to ``target`` (uint8); return whether all are below 0x80."""
    signature = types.boolean(target, types.int64, source, types.int64)

    def codegen(context, builder, signature, args):
        element = context.get_data_type(source.dtype)
        lanes = ir.VectorType(element, 16)
        itemsize = context.get_abi_sizeof(element)
        read = _element_pointer(context, builder, source, args[2], args[3], 64 * itemsize)
        write = _element_pointer(context, builder, target, args[0], args[1], 64)
        read = builder.bitcast(read, lanes.as_pointer())
        write = builder.bitcast(write, ir.VectorType(_I8, 16).as_pointer())
        union = None
        for part in range(4):
            values = builder.load(builder.gep(read, [ir.Constant(_I64, part)]))
            values.align = itemsize
            bytes_ = values if itemsize == 1 else builder.trunc(values, ir.VectorType(_I8, 16))
            builder.store(bytes_, builder.gep(write, [ir.Constant(_I64, part)])).align = 1
            union = values if union is None else builder.or_(union, values)
        strange = builder.icmp_unsigned(">", union, ir.Constant(lanes, [0x7F] * 16))
        return builder.icmp_unsigned("==", builder.bitcast(strange, _I16), ir.Constant(_I16, 0))

    return signature, codegen


@intrinsic
def put_16_by_three(typingctx, target, target_index, source, source_index):
    """Write 16 characters of ``source`` (uint16, uint32) as three bytes of UTF-8 each; return whether all take three.

    52 bytes of ``target`` are written, the last four of them without meaning. Surrogates count as others.
    """
    signature = types.boolean(target, types.int64, source, types.int64)

    def codegen(context, builder, signature, args):
        itemsize = context.get_abi_sizeof(context.get_data_type(source.dtype))
        given = ir.VectorType(context.get_data_type(source.dtype), 16)
        lanes = ir.VectorType(_I32, 16)

        def every(value):
            return ir.Constant(lanes, [value] * 16)

        read = _element_pointer(context, builder, source, args[2], args[3], 16 * itemsize)
        write = _element_pointer(context, builder, target, args[0], args[1], 52)
        points = builder.load(builder.bitcast(read, given.as_pointer()))
        points.align = itemsize
        points = builder.zext(points, lanes) if itemsize < 4 else points
        first = builder.or_(builder.lshr(points, every(12)), every(0x8080E0))
        second = builder.and_(builder.shl(points, every(2)), every(0x3F00))
        third = builder.and_(builder.shl(points, every(16)), every(0x3F0000))
        packed = builder.bitcast(builder.or_(builder.or_(first, second), third), ir.VectorType(_I8, 64))
        for quarter in range(4):  # 12 of 16 bytes each, inside a lane of 128 bits, where shuffling is cheap
            order = [16 * quarter + 4 * (byte // 3) + byte % 3 for byte in range(12)] + [16 * quarter + 3] * 4
            part = builder.shuffle_vector(
                packed, ir.Constant(packed.type, ir.Undefined), ir.Constant(ir.VectorType(_I32, 16), order)
            )
            place = builder.gep(write, [ir.Constant(_I64, 12 * quarter)])
            builder.store(part, builder.bitcast(place, part.type.as_pointer())).align = 1
        # Those of three bytes are 0x800 to 0xFFFF without 0xD800 to 0xDFFF.
        outside = builder.icmp_unsigned(">", builder.sub(points, every(0x800)), every(0xFFFF - 0x800))
        surrogate = builder.icmp_unsigned("<", builder.sub(points, every(0xD800)), every(0x800))
        strange = builder.bitcast(builder.or_(outside, surrogate), _I16)
        return builder.icmp_unsigned("==", strange, ir.Constant(_I16, 0))

    return signature, codegen


@intrinsic
def smallest_of_16(typingctx, array, index):
    """``value << 32 | place`` of the smallest of the 16 elements from ``array[index]`` on (uint32).

    ``place`` counts from ``index``; of equal elements the first.
    """
    signature = types.uint64(array, types.int64)

    def codegen(context, builder, signature, args):
        lanes = ir.VectorType(_I32, 16)
        pointer = _element_pointer(context, builder, array, *args, 64)
        values = builder.load(builder.bitcast(pointer, lanes.as_pointer()))
        values.align = 4
        reduce_type = ir.FunctionType(_I32, [lanes])
        reduce = cgutils.get_or_insert_function(builder.module, reduce_type, "llvm.vector.reduce.umin.v16i32")
        smallest = builder.call(reduce, [values])
        equal = builder.icmp_unsigned("==", values, _splat(builder, smallest, lanes))
        lowest_type = ir.FunctionType(_I16, [_I16, _I1])
        lowest = cgutils.get_or_insert_function(builder.module, lowest_type, "llvm.cttz.i16")
        place = builder.call(lowest, [builder.bitcast(equal, _I16), ir.Constant(_I1, 1)])
        high = builder.shl(builder.zext(smallest, _I64), ir.Constant(_I64, 32))
        return builder.or_(high, builder.zext(place, _I64))

    return signature, codegen


@intrinsic
def put_8_positions(typingctx, array, index, packed, base):
    """``array[index + j] = base + byte j of packed`` for j in 0..7 (array of uint16): one 16-byte store."""
    signature = types.void(array, types.int64, types.uint64, types.uint16)

    def codegen(context, builder, signature, args):
        lanes = ir.VectorType(_I16, 8)
        pointer = _element_pointer(context, builder, array, args[0], args[1], 16)
        wide = builder.zext(builder.bitcast(args[2], ir.VectorType(_I8, 8)), lanes)
        total = builder.add(wide, _splat(builder, args[3], lanes))
        builder.store(total, builder.bitcast(pointer, lanes.as_pointer())).align = 2
        return context.get_dummy_value()

    return signature, codegen


def _bit_count_intrinsic(name, takes_flag, doc):
    """An intrinsic over uint64 that calls ``llvm.<name>.i64``."""

    @intrinsic
    def count(typingctx, value):
        signature = types.uint64(types.uint64)

        def codegen(context, builder, signature, args):
            parameters = [_I64, _I1] if takes_flag else [_I64]
            function_type = ir.FunctionType(_I64, parameters)
            function = cgutils.get_or_insert_function(builder.module, function_type, f"llvm.{name}.i64")
            flags = [ir.Constant(_I1, 0)] if takes_flag else []
            return builder.call(function, [args[0], *flags])

        return signature, codegen

    count.__doc__ = doc
    return count


trailing_zeros = _bit_count_intrinsic("cttz", True, "Number of zero bits below the lowest set bit; 64 for zero.")
leading_zeros = _bit_count_intrinsic("ctlz", True, "Number of zero bits above the highest set bit; 64 for zero.")
set_bits = _bit_count_intrinsic("ctpop", False, "Number of set bits.")


@intrinsic
def prefetch(typingctx, array, index):
    """Ask the processor to fetch the cache line of ``array[index]``; never faults, so never checked."""
    signature = types.void(array, types.int64)

    def codegen(context, builder, signature, args):
        parts = context.make_array(array)(context, builder, args[0])
        pointer = builder.bitcast(builder.gep(parts.data, [args[1]]), _BYTE_POINTER)
        function_type = ir.FunctionType(ir.VoidType(), [_BYTE_POINTER, _I32, _I32, _I32])
        function = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0")
        read, keep, data = (ir.Constant(_I32, n) for n in (0, 3, 1))
        builder.call(function, [pointer, read, keep, data])
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def take_number(typingctx, record, index):
    """Add one to the int64 of ``field(record, index)``, atomically; returns what it was before."""
    signature = types.int64(types.int64, types.int64)

    def codegen(context, builder, signature, args):
        pointer = builder.gep(builder.inttoptr(args[0], _I64.as_pointer()), [args[1]])
        return builder.atomic_rmw("add", pointer, ir.Constant(_I64, 1), "monotonic")

    return signature, codegen


@intrinsic
def call_kernel(typingctx, address, arguments):
    """Call the kernel whose native code is at ``address`` (:attr:`jit.Kernel.address`) with a tuple of int64.

    An indirect call: the callee is compiled and cached on its own, once, however many kernels reach it, and is never
    inlined. Its exceptions (only ``NUMBA_BOUNDSCHECK=1`` raises any) pass through.
    """
    signature = types.int64(types.int64, arguments)

    def codegen(context, builder, signature, args):
        convention = context.call_conv
        function_type = convention.get_function_type(types.int64, arguments.types)
        function = builder.inttoptr(args[0], function_type.as_pointer())
        result = cgutils.alloca_once_value(builder, ir.Constant(_I64, 0))
        exception = cgutils.alloca_once(builder, function_type.args[1].pointee)
        values = cgutils.unpack_tuple(builder, args[1])
        code = builder.call(function, [result, exception, *values])
        status = convention._get_return_status(builder, code, builder.load(exception))
        with cgutils.if_unlikely(builder, status.is_error):
            convention.return_status_propagate(builder, status)
        return builder.load(result)

    return signature, codegen


@intrinsic
def call_c(typingctx, address, first, second, third):
    """Call the C function at ``address``, which takes three pointers and returns an ``int``."""
    signature = types.int64(types.int64, types.int64, types.int64, types.int64)

    def codegen(context, builder, signature, args):
        function_type = ir.FunctionType(ir.IntType(32), [_I64] * 3)
        function = builder.inttoptr(args[0], function_type.as_pointer())
        return builder.sext(builder.call(function, args[1:]), _I64)

    return signature, codegen


# Those below call CPython by symbol name, so their kernels keep the GIL (jit.py: ``holding_gil``).


def _python_call(builder, name, result, arguments):
    """Call a C-API function with (type, value) ``arguments``."""
    function_type = ir.FunctionType(result, [kind for kind, _ in arguments])
    function = cgutils.get_or_insert_function(builder.module, function_type, name)
    return builder.call(function, [value for _, value in arguments])


@intrinsic
def release_gil(typingctx):
    """Let other Python threads run; returns what :func:`take_gil` needs. Between the two, no exception may pass.

    With bounds checked, where one could, the GIL is kept.
    """
    signature = types.int64()

    def codegen(context, builder, signature, args):
        if config.BOUNDSCHECK:
            return ir.Constant(_I64, 0)
        return builder.ptrtoint(_python_call(builder, "PyEval_SaveThread", _BYTE_POINTER, []), _I64)

    return signature, codegen


@intrinsic
def take_gil(typingctx, state):
    """Undo :func:`release_gil`."""
    signature = types.void(types.int64)

    def codegen(context, builder, signature, args):
        if not config.BOUNDSCHECK:
            owner = builder.inttoptr(args[0], _BYTE_POINTER)
            _python_call(builder, "PyEval_RestoreThread", ir.VoidType(), [(_BYTE_POINTER, owner)])
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def list_item(typingctx, list_id, index):
    """``id(list[index])`` of the list whose ``id`` is ``list_id``; a borrowed reference."""
    signature = types.int64(types.int64, types.int64)

    def codegen(context, builder, signature, args):
        owner = builder.inttoptr(args[0], _BYTE_POINTER)
        item = _python_call(builder, "PyList_GetItem", _BYTE_POINTER, [(_BYTE_POINTER, owner), (_I64, args[1])])
        return builder.ptrtoint(item, _I64)

    return signature, codegen


@intrinsic
def list_size(typingctx, list_id):
    """``len`` of the list whose ``id`` is ``list_id``."""
    signature = types.int64(types.int64)

    def codegen(context, builder, signature, args):
        owner = builder.inttoptr(args[0], _BYTE_POINTER)
        return _python_call(builder, "PyList_Size", _I64, [(_BYTE_POINTER, owner)])

    return signature, codegen


@intrinsic
def int_value(typingctx, object_id):
    """The value of an ``int``; a negative number for another type, or what is no uint63. Calls no Python code."""
    signature = types.int64(types.int64)

    def codegen(context, builder, signature, args):
        owner = builder.inttoptr(args[0], _BYTE_POINTER)
        value = _python_call(builder, "PyLong_AsUnsignedLongLong", _I64, [(_BYTE_POINTER, owner)])
        with cgutils.if_unlikely(builder, builder.icmp_signed("==", value, ir.Constant(_I64, -1))):
            _python_call(builder, "PyErr_Clear", ir.VoidType(), [])
        return value

    return signature, codegen


@intrinsic
def utf8_of_str(typingctx, object_id):
    """(address, bytes) of the UTF-8 of a ``str``, kept by it; (0, 0) for lone surrogates or another type."""
    signature = types.UniTuple(types.int64, 2)(types.int64)

    def codegen(context, builder, signature, args):
        size = cgutils.alloca_once_value(builder, ir.Constant(_I64, 0))
        owner = builder.inttoptr(args[0], _BYTE_POINTER)
        text = _python_call(
            builder,
            "PyUnicode_AsUTF8AndSize",
            _BYTE_POINTER,
            [(_BYTE_POINTER, owner), (_I64.as_pointer(), size)],
        )
        address = builder.ptrtoint(text, _I64)
        with cgutils.if_unlikely(builder, builder.icmp_unsigned("==", address, ir.Constant(_I64, 0))):
            _python_call(builder, "PyErr_Clear", ir.VoidType(), [])
            builder.store(ir.Constant(_I64, 0), size)
        return context.make_tuple(builder, signature.return_type, [address, builder.load(size)])

    return signature, codegen


@intrinsic
def new_list(typingctx, length):
    """``id`` of a new list whose items are to be set before anyone sees it, or 0 where memory is short; owned."""
    signature = types.int64(types.int64)

    def codegen(context, builder, signature, args):
        made = builder.ptrtoint(_python_call(builder, "PyList_New", _BYTE_POINTER, [(_I64, args[0])]), _I64)
        with cgutils.if_unlikely(builder, builder.icmp_unsigned("==", made, ir.Constant(_I64, 0))):
            _python_call(builder, "PyErr_Clear", ir.VoidType(), [])
        return made

    return signature, codegen


@intrinsic
def new_bytes(typingctx, size):
    """``id`` of new ``bytes`` that are to be filled before anyone sees them, or 0 where memory is short; owned."""
    signature = types.int64(types.int64)

    def codegen(context, builder, signature, args):
        arguments = [(_BYTE_POINTER, ir.Constant(_BYTE_POINTER, None)), (_I64, args[0])]
        made = builder.ptrtoint(_python_call(builder, "PyBytes_FromStringAndSize", _BYTE_POINTER, arguments), _I64)
        with cgutils.if_unlikely(builder, builder.icmp_unsigned("==", made, ir.Constant(_I64, 0))):
            _python_call(builder, "PyErr_Clear", ir.VoidType(), [])
        return made

    return signature, codegen


@intrinsic
def share_item(typingctx, target_id, index, source_id, place):
    """``target[index] = source[place]`` of two lists; both must be inside."""
    signature = types.void(types.int64, types.int64, types.int64, types.int64)

    def codegen(context, builder, signature, args):
        target, source = (builder.inttoptr(args[number], _BYTE_POINTER) for number in (0, 2))
        item = _python_call(builder, "PyList_GetItem", _BYTE_POINTER, [(_BYTE_POINTER, source), (_I64, args[3])])
        _python_call(builder, "Py_IncRef", ir.VoidType(), [(_BYTE_POINTER, item)])
        arguments = [(_BYTE_POINTER, target), (_I64, args[1]), (_BYTE_POINTER, item)]
        _python_call(builder, "PyList_SetItem", _I32, arguments)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def append_item(typingctx, target_id, item_id):
    """``target.append(item)``, and give up the owned item; returns a negative number where memory is short."""
    signature = types.int64(types.int64, types.int64)

    def codegen(context, builder, signature, args):
        target, item = (builder.inttoptr(arg, _BYTE_POINTER) for arg in args)
        status = _python_call(builder, "PyList_Append", _I32, [(_BYTE_POINTER, target), (_BYTE_POINTER, item)])
        with cgutils.if_unlikely(builder, builder.icmp_signed("<", status, ir.Constant(_I32, 0))):
            _python_call(builder, "PyErr_Clear", ir.VoidType(), [])
        _python_call(builder, "Py_DecRef", ir.VoidType(), [(_BYTE_POINTER, item)])
        return builder.sext(status, _I64)

    return signature, codegen


@intrinsic
def characters_of_str(typingctx, object_id):
    """(address, characters, kind, is ASCII) of a ``str``'s own memory; ``kind`` is 1, 2 or 4 bytes a character.

    Asks the helper that Numba reads strings with, once CPython has said that it is a ``str``: the helper crashes on
    another type before Python 3.12. The address is 0 for another type.
    """
    signature = types.UniTuple(types.int64, 4)(types.int64)

    def codegen(context, builder, signature, args):
        length = cgutils.alloca_once_value(builder, ir.Constant(_I64, 0))
        kind = cgutils.alloca_once_value(builder, ir.Constant(_I32, 0))
        is_ascii = cgutils.alloca_once_value(builder, ir.Constant(_I32, 0))
        hashed = cgutils.alloca_once_value(builder, ir.Constant(_I64, 0))
        address = cgutils.alloca_once_value(builder, ir.Constant(_I64, 0))
        owner = builder.inttoptr(args[0], _BYTE_POINTER)
        known = _python_call(builder, "PyUnicode_GetLength", _I64, [(_BYTE_POINTER, owner)])
        with builder.if_else(builder.icmp_signed(">=", known, ir.Constant(_I64, 0))) as (is_str, is_other):
            with is_str:
                arguments = [(_BYTE_POINTER, owner)]
                arguments += [(value.type, value) for value in (length, kind, is_ascii, hashed)]
                data = _python_call(builder, "numba_extract_unicode", _BYTE_POINTER, arguments)
                builder.store(builder.ptrtoint(data, _I64), address)
            with is_other:
                _python_call(builder, "PyErr_Clear", ir.VoidType(), [])
        parts = [builder.load(address), builder.load(length)]
        parts += [builder.zext(builder.load(value), _I64) for value in (kind, is_ascii)]
        return context.make_tuple(builder, signature.return_type, parts)

    return signature, codegen


@intrinsic
def memory_of_bytes(typingctx, object_id):
    """(address, bytes) of a ``bytes`` object's memory; (0, 0) for another type."""
    signature = types.UniTuple(types.int64, 2)(types.int64)

    def codegen(context, builder, signature, args):
        size = cgutils.alloca_once_value(builder, ir.Constant(_I64, 0))
        data = cgutils.alloca_once_value(builder, ir.Constant(_I64, 0))
        owner = builder.inttoptr(args[0], _BYTE_POINTER)
        status = _python_call(
            builder,
            "PyBytes_AsStringAndSize",
            _I32,
            [(_BYTE_POINTER, owner), (_I64.as_pointer(), data), (_I64.as_pointer(), size)],
        )
        with cgutils.if_unlikely(builder, builder.icmp_signed("<", status, ir.Constant(_I32, 0))):
            _python_call(builder, "PyErr_Clear", ir.VoidType(), [])
            builder.store(ir.Constant(_I64, 0), data)
            builder.store(ir.Constant(_I64, 0), size)
        return context.make_tuple(builder, signature.return_type, [builder.load(data), builder.load(size)])

    return signature, codegen

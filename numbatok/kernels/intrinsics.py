"""LLVM instructions that Numba has no word for. Those of vectors, and those about CPython, have modules of their own:
``intrinsics_vector`` and ``intrinsics_cpython``; only these three import llvmlite.

Every function in the three is a ``numba.extending.intrinsic``: it emits a few LLVM instructions in place, needs no
compiler besides Numba's own, and can be cached. On a target without the instruction (no AVX2, no prefetch) LLVM writes
an equivalent sequence, so nothing asks which processor it runs on, but for ``put_16_characters``, whose equivalent
would be slower than doing without.

Loads and stores do not check their index, which saves up to 4 ns a pretoken in the key loop. With
``NUMBA_BOUNDSCHECK=1`` the same functions check and raise IndexError, so the tests can run every kernel guarded.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

I1 = ir.IntType(1)
I8 = ir.IntType(8)
I16 = ir.IntType(16)
I32 = ir.IntType(32)
I64 = ir.IntType(64)
BYTE_POINTER = I8.as_pointer()


def item_bytes(array_type):
    """Bytes of an element. LLVM, asked for it, would parse a module each time: a twentieth of all compile time."""
    return array_type.dtype.bitwidth // 8


def element_pointer(context, builder, array_type, array, index, element_bytes):
    """Address of ``array[index]``; guarded for ``element_bytes`` bytes from there when bounds are checked."""
    parts = context.make_array(array_type)(context, builder, array)
    pointer = builder.gep(parts.data, [index], inbounds=True)
    if config.BOUNDSCHECK:
        used = ir.Constant(I64, -(-element_bytes // item_bytes(array_type)))
        end = builder.add(index, used)
        bad = builder.or_(
            builder.icmp_signed("<", index, ir.Constant(I64, 0)),
            builder.icmp_signed(">", end, parts.nitems),
        )
        with cgutils.if_unlikely(builder, bad):
            context.call_conv.return_user_exc(builder, IndexError, ("kernel access outside its array",))
    return pointer


def splat(builder, value, vector_type):
    """A vector with ``value`` in every lane."""
    undefined = ir.Constant(vector_type, ir.Undefined)
    lane = builder.insert_element(undefined, value, ir.Constant(I32, 0))
    zeros = ir.Constant(ir.VectorType(I32, vector_type.count), [0] * vector_type.count)
    return builder.shuffle_vector(lane, undefined, zeros)


def _array_over(context, builder, array_type, address, length):
    """A NumPy array value over memory that nobody owns through it."""
    array = context.make_array(array_type)(context, builder)
    item = context.get_data_type(array_type.dtype)
    itemsize = ir.Constant(I64, item_bytes(array_type))
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
    return builder.gep(builder.inttoptr(record, I64.as_pointer()), [index])


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
        length = builder.load(_field_pointer(builder, record, builder.add(index, ir.Constant(I64, 1))))
        return _array_over(context, builder, array_type, address, length)

    return signature, codegen


@intrinsic
def at(typingctx, array, index):
    """``array[index]`` without a bounds check or wraparound."""
    signature = array.dtype(array, types.int64)

    def codegen(context, builder, signature, args):
        return builder.load(element_pointer(context, builder, array, *args, item_bytes(array)))

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
            return builder.load(element_pointer(context, builder, array, args[0], index, item_bytes(array)))
        return builder.load(builder.gep(builder.gep(parts.data, [args[1]]), [args[2]]))

    return signature, codegen


@intrinsic
def put(typingctx, array, index, value):
    """``array[index] = value`` without a bounds check or wraparound."""
    signature = types.void(array, types.int64, array.dtype)

    def codegen(context, builder, signature, args):
        builder.store(args[2], element_pointer(context, builder, array, args[0], args[1], item_bytes(array)))
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def load_u64(typingctx, array, index):
    """The eight bytes from ``array[index]`` on (uint8), as one little-endian uint64, at any alignment."""
    signature = types.uint64(array, types.int64)

    def codegen(context, builder, signature, args):
        pointer = element_pointer(context, builder, array, *args, 8)
        load = builder.load(builder.bitcast(pointer, I64.as_pointer()))
        load.align = 1
        return load

    return signature, codegen


@intrinsic
def store_u64(typingctx, array, index, value):
    """Write ``value`` as eight bytes from ``array[index]`` on (uint8), at any alignment."""
    signature = types.void(array, types.int64, types.uint64)

    def codegen(context, builder, signature, args):
        pointer = element_pointer(context, builder, array, args[0], args[1], 8)
        store = builder.store(args[2], builder.bitcast(pointer, I64.as_pointer()))
        store.align = 1
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def multiply_fold(typingctx, left, right):
    """Upper half xor lower half of the 128-bit product of two uint64."""
    signature = types.uint64(types.uint64, types.uint64)

    def codegen(context, builder, signature, args):
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        high = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), I64)
        return builder.xor(high, builder.trunc(product, I64))

    return signature, codegen


def _bit_count_intrinsic(name, takes_flag, doc):
    """An intrinsic over uint64 that calls ``llvm.<name>.i64``."""

    @intrinsic
    def count(typingctx, value):
        signature = types.uint64(types.uint64)

        def codegen(context, builder, signature, args):
            parameters = [I64, I1] if takes_flag else [I64]
            function_type = ir.FunctionType(I64, parameters)
            function = cgutils.get_or_insert_function(builder.module, function_type, f"llvm.{name}.i64")
            flags = [ir.Constant(I1, 0)] if takes_flag else []
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
        pointer = builder.bitcast(builder.gep(parts.data, [args[1]]), BYTE_POINTER)
        function_type = ir.FunctionType(ir.VoidType(), [BYTE_POINTER, I32, I32, I32])
        function = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0")
        read, keep, data = (ir.Constant(I32, n) for n in (0, 3, 1))
        builder.call(function, [pointer, read, keep, data])
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def unseen(typingctx, value):
    """``value``, of which LLVM knows nothing from here on.

    Where a branch asks for several conditions LLVM makes a branch of each, though one alone goes another way every
    second time and all together seldom do.
    """
    signature = types.uint64(types.uint64)

    def codegen(context, builder, signature, args):
        return builder.asm(ir.FunctionType(I64, [I64]), "", "=r,0", [args[0]], False)

    return signature, codegen


@intrinsic
def take_number(typingctx, record, index):
    """Add one to the int64 of ``field(record, index)``, atomically; returns what it was before."""
    signature = types.int64(types.int64, types.int64)

    def codegen(context, builder, signature, args):
        pointer = builder.gep(builder.inttoptr(args[0], I64.as_pointer()), [args[1]])
        return builder.atomic_rmw("add", pointer, ir.Constant(I64, 1), "monotonic")

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
        result = cgutils.alloca_once_value(builder, ir.Constant(I64, 0))
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
        function_type = ir.FunctionType(ir.IntType(32), [I64] * 3)
        function = builder.inttoptr(args[0], function_type.as_pointer())
        return builder.sext(builder.call(function, args[1:]), I64)

    return signature, codegen

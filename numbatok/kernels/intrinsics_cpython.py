"""CPython's functions and objects in LLVM, by symbol name: kernels that use them keep the GIL (``holding_gil``)."""

from llvmlite import ir
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic

from numbatok.kernels.intrinsics import BYTE_POINTER, I32, I64


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
            return ir.Constant(I64, 0)
        return builder.ptrtoint(_python_call(builder, "PyEval_SaveThread", BYTE_POINTER, []), I64)

    return signature, codegen


@intrinsic
def take_gil(typingctx, state):
    """Undo :func:`release_gil`."""
    signature = types.void(types.int64)

    def codegen(context, builder, signature, args):
        if not config.BOUNDSCHECK:
            owner = builder.inttoptr(args[0], BYTE_POINTER)
            _python_call(builder, "PyEval_RestoreThread", ir.VoidType(), [(BYTE_POINTER, owner)])
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def list_item(typingctx, list_id, index):
    """``id(list[index])`` of the list whose ``id`` is ``list_id``; a borrowed reference."""
    signature = types.int64(types.int64, types.int64)

    def codegen(context, builder, signature, args):
        owner = builder.inttoptr(args[0], BYTE_POINTER)
        item = _python_call(builder, "PyList_GetItem", BYTE_POINTER, [(BYTE_POINTER, owner), (I64, args[1])])
        return builder.ptrtoint(item, I64)

    return signature, codegen


@intrinsic
def list_size(typingctx, list_id):
    """``len`` of the list whose ``id`` is ``list_id``; a negative number for another type."""
    signature = types.int64(types.int64)

    def codegen(context, builder, signature, args):
        owner = builder.inttoptr(args[0], BYTE_POINTER)
        size = _python_call(builder, "PyList_Size", I64, [(BYTE_POINTER, owner)])
        with cgutils.if_unlikely(builder, builder.icmp_signed("<", size, ir.Constant(I64, 0))):
            _python_call(builder, "PyErr_Clear", ir.VoidType(), [])
        return size

    return signature, codegen


@intrinsic
def int_value(typingctx, object_id):
    """The value of an ``int``; a negative number for another type, or what is no uint63. Calls no Python code."""
    signature = types.int64(types.int64)

    def codegen(context, builder, signature, args):
        owner = builder.inttoptr(args[0], BYTE_POINTER)
        value = _python_call(builder, "PyLong_AsUnsignedLongLong", I64, [(BYTE_POINTER, owner)])
        with cgutils.if_unlikely(builder, builder.icmp_signed("==", value, ir.Constant(I64, -1))):
            _python_call(builder, "PyErr_Clear", ir.VoidType(), [])
        return value

    return signature, codegen


@intrinsic
def new_int(typingctx, value):
    """``id`` of an ``int``; owned. It is 0, with an exception set, where memory is short."""
    signature = types.int64(types.int64)

    def codegen(context, builder, signature, args):
        return builder.ptrtoint(_python_call(builder, "PyLong_FromLongLong", BYTE_POINTER, [(I64, args[0])]), I64)

    return signature, codegen


@intrinsic
def utf8_of_str(typingctx, object_id):
    """(address, bytes) of the UTF-8 of a ``str``, kept by it; (0, 0) for lone surrogates or another type."""
    signature = types.UniTuple(types.int64, 2)(types.int64)

    def codegen(context, builder, signature, args):
        size = cgutils.alloca_once_value(builder, ir.Constant(I64, 0))
        owner = builder.inttoptr(args[0], BYTE_POINTER)
        text = _python_call(
            builder,
            "PyUnicode_AsUTF8AndSize",
            BYTE_POINTER,
            [(BYTE_POINTER, owner), (I64.as_pointer(), size)],
        )
        address = builder.ptrtoint(text, I64)
        with cgutils.if_unlikely(builder, builder.icmp_unsigned("==", address, ir.Constant(I64, 0))):
            _python_call(builder, "PyErr_Clear", ir.VoidType(), [])
            builder.store(ir.Constant(I64, 0), size)
        return context.make_tuple(builder, signature.return_type, [address, builder.load(size)])

    return signature, codegen


@intrinsic
def new_list(typingctx, length):
    """``id`` of a new list whose items are to be set before anyone sees it, or 0 where memory is short; owned."""
    signature = types.int64(types.int64)

    def codegen(context, builder, signature, args):
        made = builder.ptrtoint(_python_call(builder, "PyList_New", BYTE_POINTER, [(I64, args[0])]), I64)
        with cgutils.if_unlikely(builder, builder.icmp_unsigned("==", made, ir.Constant(I64, 0))):
            _python_call(builder, "PyErr_Clear", ir.VoidType(), [])
        return made

    return signature, codegen


@intrinsic
def new_bytes(typingctx, size):
    """``id`` of new ``bytes`` that are to be filled before anyone sees them, or 0 where memory is short; owned."""
    signature = types.int64(types.int64)

    def codegen(context, builder, signature, args):
        arguments = [(BYTE_POINTER, ir.Constant(BYTE_POINTER, None)), (I64, args[0])]
        made = builder.ptrtoint(_python_call(builder, "PyBytes_FromStringAndSize", BYTE_POINTER, arguments), I64)
        with cgutils.if_unlikely(builder, builder.icmp_unsigned("==", made, ir.Constant(I64, 0))):
            _python_call(builder, "PyErr_Clear", ir.VoidType(), [])
        return made

    return signature, codegen


@intrinsic
def new_str(typingctx, length, largest):
    """``id`` of a new ``str`` that is to be filled before anyone sees it, or 0 where memory is short; owned.

    ``largest`` is its largest character, or the bits that any of them has.
    """
    signature = types.int64(types.int64, types.int64)

    def codegen(context, builder, signature, args):
        arguments = [(I64, args[0]), (I32, builder.trunc(args[1], I32))]
        made = builder.ptrtoint(_python_call(builder, "PyUnicode_New", BYTE_POINTER, arguments), I64)
        with cgutils.if_unlikely(builder, builder.icmp_unsigned("==", made, ir.Constant(I64, 0))):
            _python_call(builder, "PyErr_Clear", ir.VoidType(), [])
        return made

    return signature, codegen


@intrinsic
def new_array(typingctx, maker, kind, item_type, length, columns):
    """``id`` of a new array, of two dimensions unless ``columns`` is 0; owned.

    It is 0, with an exception set, where memory is short.

    ``maker`` is the address of NumPy's ``PyArray_New``, ``kind`` that of the type it makes, ``item_type`` the number of
    the items' type.
    """
    signature = types.int64(types.int64, types.int64, types.int64, types.int64, types.int64)

    def codegen(context, builder, signature, args):
        shape = cgutils.alloca_once(builder, I64, size=2)
        for place, size in enumerate(args[3:]):
            builder.store(size, builder.gep(shape, [ir.Constant(I32, place)]))
        dimensions = builder.select(
            builder.icmp_unsigned("==", args[4], ir.Constant(I64, 0)), ir.Constant(I32, 1), ir.Constant(I32, 2)
        )
        parameters = [I64, I32, I64.as_pointer(), I32, I64, I64, I32, I32, I64]
        function_type = ir.FunctionType(I64, parameters)
        function = builder.inttoptr(args[0], function_type.as_pointer())
        nothing, no_address = ir.Constant(I32, 0), ir.Constant(I64, 0)
        # Strides, data, size of an item, flags and owner: as they are by default.
        defaults = [no_address, no_address, nothing, nothing, no_address]
        return builder.call(function, [args[1], dimensions, shape, builder.trunc(args[2], I32), *defaults])

    return signature, codegen


@intrinsic
def new_pair(typingctx, first_id, second_id):
    """``id`` of a ``tuple`` of two items, which it takes over; owned.

    It is 0, with an exception set and the items given up, where memory is short.
    """
    signature = types.int64(types.int64, types.int64)

    def codegen(context, builder, signature, args):
        made = _python_call(builder, "PyTuple_New", BYTE_POINTER, [(I64, ir.Constant(I64, 2))])
        for place, item in enumerate(args):
            owned = builder.inttoptr(item, BYTE_POINTER)
            arguments = [(BYTE_POINTER, made), (I64, ir.Constant(I64, place)), (BYTE_POINTER, owned)]
            with builder.if_else(cgutils.is_not_null(builder, made)) as (is_made, is_not):
                with is_made:
                    _python_call(builder, "PyTuple_SetItem", I32, arguments)
                with is_not:
                    _python_call(builder, "Py_DecRef", ir.VoidType(), [(BYTE_POINTER, owned)])
        return builder.ptrtoint(made, I64)

    return signature, codegen


@intrinsic
def give_up(typingctx, object_id):
    """Let go of an owned object."""
    signature = types.void(types.int64)

    def codegen(context, builder, signature, args):
        owned = builder.inttoptr(args[0], BYTE_POINTER)
        _python_call(builder, "Py_DecRef", ir.VoidType(), [(BYTE_POINTER, owned)])
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def none(typingctx):
    """``id(None)``; owned."""
    signature = types.int64()

    def codegen(context, builder, signature, args):
        return builder.ptrtoint(context.get_python_api(builder).make_none(), I64)

    return signature, codegen


@intrinsic
def share_item(typingctx, target_id, index, source_id, place):
    """``target[index] = source[place]`` of two lists; both must be inside."""
    signature = types.void(types.int64, types.int64, types.int64, types.int64)

    def codegen(context, builder, signature, args):
        target, source = (builder.inttoptr(args[number], BYTE_POINTER) for number in (0, 2))
        item = _python_call(builder, "PyList_GetItem", BYTE_POINTER, [(BYTE_POINTER, source), (I64, args[3])])
        _python_call(builder, "Py_IncRef", ir.VoidType(), [(BYTE_POINTER, item)])
        arguments = [(BYTE_POINTER, target), (I64, args[1]), (BYTE_POINTER, item)]
        _python_call(builder, "PyList_SetItem", I32, arguments)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def append_item(typingctx, target_id, item_id):
    """``target.append(item)``, and give up the owned item; returns a negative number where memory is short."""
    signature = types.int64(types.int64, types.int64)

    def codegen(context, builder, signature, args):
        target, item = (builder.inttoptr(arg, BYTE_POINTER) for arg in args)
        status = _python_call(builder, "PyList_Append", I32, [(BYTE_POINTER, target), (BYTE_POINTER, item)])
        with cgutils.if_unlikely(builder, builder.icmp_signed("<", status, ir.Constant(I32, 0))):
            _python_call(builder, "PyErr_Clear", ir.VoidType(), [])
        _python_call(builder, "Py_DecRef", ir.VoidType(), [(BYTE_POINTER, item)])
        return builder.sext(status, I64)

    return signature, codegen


@intrinsic
def characters_of_str(typingctx, object_id):
    """(address, characters, kind, is ASCII) of a ``str``'s own memory; ``kind`` is 1, 2 or 4 bytes a character.

    Asks the helper that Numba reads strings with, once CPython has said that it is a ``str``: the helper crashes on
    another type before Python 3.12. The address is 0 for another type.
    """
    signature = types.UniTuple(types.int64, 4)(types.int64)

    def codegen(context, builder, signature, args):
        length = cgutils.alloca_once_value(builder, ir.Constant(I64, 0))
        kind = cgutils.alloca_once_value(builder, ir.Constant(I32, 0))
        is_ascii = cgutils.alloca_once_value(builder, ir.Constant(I32, 0))
        hashed = cgutils.alloca_once_value(builder, ir.Constant(I64, 0))
        address = cgutils.alloca_once_value(builder, ir.Constant(I64, 0))
        owner = builder.inttoptr(args[0], BYTE_POINTER)
        known = _python_call(builder, "PyUnicode_GetLength", I64, [(BYTE_POINTER, owner)])
        with builder.if_else(builder.icmp_signed(">=", known, ir.Constant(I64, 0))) as (is_str, is_other):
            with is_str:
                arguments = [(BYTE_POINTER, owner)]
                arguments += [(value.type, value) for value in (length, kind, is_ascii, hashed)]
                data = _python_call(builder, "numba_extract_unicode", BYTE_POINTER, arguments)
                builder.store(builder.ptrtoint(data, I64), address)
            with is_other:
                _python_call(builder, "PyErr_Clear", ir.VoidType(), [])
        parts = [builder.load(address), builder.load(length)]
        parts += [builder.zext(builder.load(value), I64) for value in (kind, is_ascii)]
        return context.make_tuple(builder, signature.return_type, parts)

    return signature, codegen


@intrinsic
def memory_of_bytes(typingctx, object_id):
    """(address, bytes) of a ``bytes`` object's memory; (0, 0) for another type."""
    signature = types.UniTuple(types.int64, 2)(types.int64)

    def codegen(context, builder, signature, args):
        size = cgutils.alloca_once_value(builder, ir.Constant(I64, 0))
        data = cgutils.alloca_once_value(builder, ir.Constant(I64, 0))
        owner = builder.inttoptr(args[0], BYTE_POINTER)
        status = _python_call(
            builder,
            "PyBytes_AsStringAndSize",
            I32,
            [(BYTE_POINTER, owner), (I64.as_pointer(), data), (I64.as_pointer(), size)],
        )
        with cgutils.if_unlikely(builder, builder.icmp_signed("<", status, ir.Constant(I32, 0))):
            _python_call(builder, "PyErr_Clear", ir.VoidType(), [])
            builder.store(ir.Constant(I64, 0), data)
            builder.store(ir.Constant(I64, 0), size)
        return context.make_tuple(builder, signature.return_type, [builder.load(data), builder.load(size)])

    return signature, codegen

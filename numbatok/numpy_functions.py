"""NumPy's C functions, for kernels that make or read its objects."""

import ctypes
from importlib import import_module

import numpy as np

# Their places in NumPy's table, as its header numpy/__multiarray_api.h numbers them for good.
NEW_ARRAY = 93
STRING_LOAD, STRING_ACQUIRE, STRING_RELEASE = 313, 316, 318

#: Bytes from an array object to the address of its items: they follow what every object begins with.
ARRAY_DATA = object.__basicsize__


def address_of_function(place: int) -> int:
    """The address of the C function at a place of the table."""
    core = "numpy._core" if np.lib.NumpyVersion(np.__version__) >= "2.0.0b1" else "numpy.core"
    capsule = import_module(f"{core}._multiarray_umath")._ARRAY_API
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = ctypes.cast(pointer_of(capsule, None), ctypes.POINTER(ctypes.c_void_p))
    address: int = table[place]
    return address

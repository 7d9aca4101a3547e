"""NumPy's file format, as far as ids and offsets need it."""

_BYTES = 128


def npy_header(dtype: str, count: int) -> bytes:
    """The 128 bytes before the numbers of a one-dimensional ``.npy`` file: version 1.0, of one size for any ``count``.

    ``dtype`` is as :attr:`numpy.dtype.str` has it, such as ``"<u4"``.
    """
    fields = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({count},), }}"
    return b"\x93NUMPY\x01\x00\x76\x00" + fields.encode().ljust(_BYTES - 11) + b"\n"

"""How kernels are compiled and how their machine code is kept: the only module that calls ``njit``.

Options, and why each is set:

``nogil=True``
    Kernels touch no Python object, so other Python threads run meanwhile. Only the kernels that read strings or make
    lists through the C API keep the GIL (:func:`kernel` with ``holding_gil=True``).
``error_model="numpy"``
    Division does not test for zero; no kernel divides by a value it has not checked.
``no_cfunc_wrapper``, ``_nrt=False``, and for helpers ``no_cpython_wrapper``
    Nothing calls kernels through C (but those of :func:`method`), counts references in them, or calls a helper from
    Python: a sixth less to compile.
``pipeline_class``
    Numba's compiler without what kernels do without; see ``compiler``. With a Numba later than ``_NEWEST_KNOWN`` its
    own, at twice the time.
``parallel=True``
    For the one kernel that starts workers (``kernel(..., parallel=True)``): its compiling starts Numba's threads, and
    takes Numba's whole pipeline.
no ``fastmath``, no ``inline``
    Kernels are integer code; forced inlining made a test kernel twice as slow and its compile time half as long again.

Numba's own cache goes stale when a helper in another file changes, and its key leaves out the options and
``NUMBA_BOUNDSCHECK``. :class:`_PackageCache` mends both: the stamp is one digest over all sources of this package, the
key holds the options, and data files carry the digest in their name, so a reader can't meet another version's file.
It also reads what was compiled where this user cannot write, as in a container image, which Numba's does not.
"""

import ctypes
import functools
import hashlib
import importlib
import os
import pickle
import pkgutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from numba.core import config as _config
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, _CacheLocator
from numba.core.compiler import Compiler
from numba.core.registry import cpu_target

from numbatok import notices
from numbatok.locks import building, taken_by_fork
from numbatok.memory import address_of, without_collection

config: Any = _config  # its attributes are made from the environment, out of a type checker's sight
njit: Any = numba.njit  # takes options that its annotations leave out

_OPTIONS: dict[str, Any] = {"error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": False}
#: The newest Numba whose inside is as :mod:`numbatok.kernels.compiler` has it; a later one compiles in its own way.
_NEWEST_KNOWN = (0, 68)
_PACKAGE = Path(__file__).resolve().parent.parent

HelperCompiler: Any = Compiler
KernelCompiler: Any = Compiler
if numba.version_info.short <= _NEWEST_KNOWN:
    from numbatok.kernels.compiler import HelperCompiler, KernelCompiler

taken_by_fork.append(numba.core.compiler_lock.global_compiler_lock)

#: Every kernel made by :func:`kernel`, by name: what ``numbatok warmup`` walks and what the tests inspect.
kernels: dict[str, "Kernel"] = {}


@functools.cache
def source_digest() -> str:
    """SHA-256 (hex) over the paths and contents of every ``.py`` file of the package."""
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(path.relative_to(_PACKAGE).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def load_compiler() -> None:
    """Let Numba import what it leaves to the first compile: where that is broken off, it cannot be begun again."""
    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()


class _Nowhere(_CacheLocator):
    """What stands for a place where none can be written, so that kernels are still read from where they are."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._line = function.__code__.co_firstlineno

    @classmethod
    def from_function(cls, function: Callable[..., Any], _file: str) -> "_Nowhere":
        return cls(function)

    def get_cache_path(self) -> str:
        return os.devnull

    def ensure_cache_path(self) -> None:
        raise OSError("neither the package's directory nor a cache directory of this user can be written")

    def get_source_stamp(self) -> str:
        return source_digest()

    def get_disambiguator(self) -> str:
        return str(self._line)


class _Locating(CompileResultCacheImpl):
    _locator_classes = [*CompileResultCacheImpl._locator_classes, _Nowhere]  # type: ignore[list-item]  # noqa: RUF012


class _CheckedFile(IndexDataCacheFile):
    """The index and data files of a kernel, whose content is checked: Numba runs what it finds, damaged or not."""

    def save(self, key: Any, data: Any) -> None:
        content = self._dump(data)
        super().save(key, (hashlib.sha256(content).digest(), content))

    def load(self, key: Any) -> Any:
        found = super().load(key)
        if found is None:
            return None
        digest, content = found
        if hashlib.sha256(content).digest() != digest:
            raise ValueError("the file is damaged")
        return pickle.loads(content)


class _PackageCache(FunctionCache):
    """A kernel cache that cannot go stale and whose failures cost time, never an error."""

    _impl_class = _Locating

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        super().__init__(function)
        written = self._cache_path
        self._cache_file = self._file_in(written)
        self._places = self._read_only(function.__code__.co_filename, written)
        if isinstance(self._impl.locator, _Nowhere):
            self._cache_path = None  # what Numba's statistics tell
        else:
            self._places.append(written)
        self._options = tuple(sorted(options.items()))

    @staticmethod
    def _read_only(source: str, written: str) -> list[str]:
        """The directories that Numba would write to rather than to ``written``, if it could."""
        places = []
        if config.CACHE_DIR:
            places.append(os.path.join(config.CACHE_DIR, _CacheLocator.get_suitable_cache_subpath(source)))
        places.append(os.path.join(os.path.dirname(source), "__pycache__"))
        return places[: places.index(written)] if written in places else places

    def _file_in(self, place: str) -> Any:
        """The index and data files of this kernel in a directory."""
        base, digest = self._impl.filename_base, source_digest()
        file = _CheckedFile(place, base, digest)
        file._data_name_pattern = f"{base}.{digest[:16]}.{{number:d}}.nbc"
        return file

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return (*super()._index_key(sig, codegen), self._options, bool(config.BOUNDSCHECK))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        target_context.refresh()
        key = self._index_key(sig, target_context.codegen())
        for place in self._places:
            try:
                data = self._file_in(place).load(key)
                if data is not None:
                    found = self._impl.rebuild(target_context, data)
                    self._cache_path = place
                    return found
            except Exception as error:  # a damaged file, or one that vanished or may not be read
                notices.log.debug("kernel cache of %s in %s not read: %r", self._name, place, error)
        notices.compiling()
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            try:
                super().save_overload(sig, data)
            except OSError:
                raise
            except Exception:  # the index that it would add to is damaged: begin a new one
                self.flush()
                super().save_overload(sig, data)
        except OSError as error:
            notices.cache_not_writable(str(error))


def helper(function: Callable[..., Any]) -> Any:
    """Decorate a function that kernels call: compiled into each kernel that uses it, with that kernel's types."""
    return njit(no_cpython_wrapper=True, pipeline_class=HelperCompiler, **_OPTIONS)(function)


def all_kernels() -> list["Kernel"]:
    """Every kernel of the package, by name."""
    package = importlib.import_module("numbatok.kernels")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"numbatok.kernels.{module.name}")
    return [kernels[name] for name in sorted(kernels)]


class Kernel:
    """An entry point from Python: compiled, or loaded from the cache, on first use, for one signature.

    ``signature`` names the Numba types of the arguments, so no second specialisation can appear unseen: a call with
    other types is a TypeError.
    """

    def __init__(self, function: Callable[..., Any], signature: str, holding_gil: bool, parallel: bool) -> None:
        functools.update_wrapper(self, function)
        self.name = function.__name__
        self.signature = signature
        self._function = function
        self._options = {**_OPTIONS, "nogil": not holding_gil}
        if parallel:
            self._options["parallel"] = True
        self._compiled: Any = None
        self.seconds = 0.0  # that compiling or loading it took
        kernels[self.name] = self

    def compiled(self) -> Any:
        """The compiled function, callable from Python and from other kernels; the first call takes seconds."""
        if self._compiled is None:
            with building:
                if self._compiled is None:
                    self._compiled = self._compile()
        return self._compiled

    @property
    def ready(self) -> bool:
        """Whether it is compiled, or loaded, already."""
        return self._compiled is not None

    @functools.cached_property  # LLVM takes 0.04 ms to tell it, which a small batch asks for four times
    def address(self) -> int:
        """Where the native code is, for :func:`intrinsics.call_kernel`; valid for the life of the process."""
        (result,) = self.compiled().overloads.values()
        address: int = result.library.get_pointer_to_function(result.fndesc.llvm_func_name)
        return address

    @property
    def entry(self) -> Any:
        """The compiled function for Python without Numba's look at the types of the arguments, which takes 0.07 us."""
        (result,) = self.compiled().overloads.values()
        return result.entry_point

    def __call__(self, *args: Any) -> Any:
        """Call the compiled function."""
        return self.compiled()(*args)

    def _compile(self) -> Any:
        if config.DISABLE_JIT:
            raise RuntimeError(
                "numbatok's kernels are machine code and cannot run with NUMBA_DISABLE_JIT=1: unset it "
                "(NUMBA_BOUNDSCHECK=1 checks indices, NUMBA_JIT_COVERAGE=1 measures coverage)"
            )
        started = time.perf_counter()
        dispatcher = without_collection(self._dispatcher)  # a seventh of the time otherwise
        self.seconds = time.perf_counter() - started
        notices.log.debug("kernel %s ready in %.2f s", self.name, self.seconds)
        return dispatcher

    def _dispatcher(self) -> Any:
        """Numba's dispatcher of the function, compiled for the one signature or loaded from the cache."""
        compiler = Compiler if "parallel" in self._options else KernelCompiler
        dispatcher = njit(pipeline_class=compiler, **self._options)(self._function)
        try:
            dispatcher._cache = _PackageCache(self._function, self._options)
        except (RuntimeError, OSError) as error:  # no place that numba tries can be written
            notices.cache_not_writable(str(error))
            notices.compiling()
        dispatcher.compile(self.signature)
        dispatcher.disable_compile()
        return dispatcher


class _MethodDef(ctypes.Structure):
    """CPython's ``PyMethodDef``."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_METH_O = 8  # of CPython: a function of one argument


class Method(Kernel):
    """A kernel that CPython calls itself, with a record's address and one argument, and that returns an object."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function, "int64(int64, int64)", holding_gil=True, parallel=False)
        self._options["no_cfunc_wrapper"] = False

    @functools.cached_property
    def _definition(self) -> _MethodDef:
        (result,) = self.compiled().overloads.values()
        address = result.library.get_pointer_to_function(result.fndesc.llvm_cfunc_wrapper_name)
        return _MethodDef(self.name.encode(), address, _METH_O, None)

    def bound_to(self, record: npt.NDArray[np.int64], kept: object = None) -> Callable[[Any], Any]:
        """A built-in function of one argument: the kernel with an ``int``, the record's address, as its first.

        The function keeps the record alive, and ``kept``, which has what the record points to.
        """
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype, make.argtypes = ctypes.py_object, [ctypes.POINTER(_MethodDef), ctypes.py_object, ctypes.py_object]
        # The third argument is meant for the function's module: it lives as long as the function.
        bound: Callable[[Any], Any] = make(self._definition, address_of(record), (self._definition, record, kept))
        return bound


def method(function: Callable[..., Any]) -> Method:
    """Decorate a kernel that takes the ``id`` of an ``int``, an address, and that of an argument.

    It returns the ``id`` of an object that is the caller's then, or 0 with an exception set.
    """
    return Method(function)


def kernel(
    signature: str, *, holding_gil: bool = False, parallel: bool = False
) -> Callable[[Callable[..., Any]], Kernel]:
    """Decorate an entry point; ``signature`` as in ``"int64(int64, int64)"``."""

    def decorate(function: Callable[..., Any]) -> Kernel:
        return Kernel(function, signature, holding_gil, parallel)

    return decorate

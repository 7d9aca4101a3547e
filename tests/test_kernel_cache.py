"""Compiled code is never stale, its options never mixed up, and its cache's failures never errors.

Each test works on a copy of the package with a cache of its own, in processes of their own. One small kernel stands for
all: ``enter_edges`` of ``kernels/build.py``, which calls ``edge_slot`` of ``kernels/added.py``.
"""

import shutil
import sys
from pathlib import Path

import pytest

from numbatok.kernels.jit import kernels
from support import PACKAGE, output_of, run_python

#: Enters one edge of a trie and prints the slot that it took, then cache hits and misses of the kernel.
ENTER = """
    import numpy as np
    from numbatok.kernels import build
    from numbatok.kernels.jit import kernels
    from numbatok.memory import address_of

    slots = np.full(1 << 12, 2**64 - 1, np.uint64)
    rows = np.array([[3, 65, 4]], np.uint32)
    build.enter_edges(address_of(rows), 1, address_of(slots), len(slots))
    stats = kernels["enter_edges"].compiled().stats
    print(np.flatnonzero(slots != 2**64 - 1)[0], sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""

#: Reads ids[-1] of an array whose first element the kernel is not told of: legal memory, an illegal index.
OUTSIDE = """
    import numpy as np
    from numbatok.kernels import decode
    from numbatok.memory import address_of

    ids, offsets, table = np.array([9, 9], np.uint32), np.array([-1, 1]), np.array([0], np.int32)
    starts, data, ends = np.array([0, 1]), np.zeros(32, np.uint8), np.zeros(1, np.int64)
    try:
        print(decode.decode_documents(
            address_of(ids) + 4, address_of(offsets), 1, address_of(table), 1, address_of(starts), 1,
            address_of(data), 32, address_of(data), 0, address_of(ends)
        ))
    except IndexError as error:
        print("IndexError")
"""


class Copy:
    """A copy of the package with a kernel cache beside it."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "copy"
        self.package = self.root / "numbatok"
        self.cache = folder / "cache"
        shutil.copytree(PACKAGE, self.package, ignore=shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc"))

    def output_of(self, code: str, **environment: str | None) -> list[str]:
        """The words that ``code`` prints when it runs with this copy and its cache."""
        variables = {"NUMBA_CACHE_DIR": str(self.cache), "NUMBA_BOUNDSCHECK": None, **environment}
        return output_of(code, package_root=self.root, **variables).split()


@pytest.fixture
def package(tmp_path: Path) -> Copy:
    """A fresh copy."""
    return Copy(tmp_path)


def test_a_warm_cache_is_used(package: Copy) -> None:
    """The second process loads what the first compiled."""
    cold, warm = package.output_of(ENTER), package.output_of(ENTER)
    assert cold[1:] == ["0", "1"]
    assert warm[1:] == ["1", "0"]
    assert warm[0] == cold[0]


def test_a_helper_in_another_file_is_edited(package: Copy) -> None:
    """The kernel that calls it is compiled anew, though its own file is the same; and once more when it is undone."""
    before = package.output_of(ENTER)
    helpers = package.package / "kernels" / "added.py"
    original = helpers.read_text(encoding="utf-8")
    edited = "\n\n@helper\ndef edge_slot(node, byte, shift):\n    return U64(77)\n"
    helpers.write_text(original + edited, encoding="utf-8")
    assert before[0] != "77"
    assert package.output_of(ENTER) == ["77", "0", "1"]
    helpers.write_text(original, encoding="utf-8")
    assert package.output_of(ENTER)[0] == before[0]


def test_bounds_are_checked_over_a_warm_cache(package: Copy) -> None:
    """``NUMBA_BOUNDSCHECK=1`` does not get the code without checks, nor the other way round."""
    unchecked = package.output_of(OUTSIDE)
    assert unchecked != ["IndexError"]
    assert package.output_of(OUTSIDE, NUMBA_BOUNDSCHECK="1") == ["IndexError"]
    assert package.output_of(OUTSIDE) == unchecked
    assert package.output_of(OUTSIDE, NUMBA_BOUNDSCHECK="1") == ["IndexError"]


def test_options_are_part_of_the_key(package: Copy) -> None:
    """One function compiled with and without the GIL: two artefacts, each found again by its own."""
    (package.package / "kernels" / "twice.py").write_text(
        "import sys\n"
        "from numbatok.kernels.jit import kernel\n"
        "@kernel('int64(int64)', holding_gil='held' in sys.argv)\n"
        "def double(value):\n"
        "    return 2 * value\n",
        encoding="utf-8",
    )
    code = """
        from numbatok.kernels.twice import double
        assert double(21) == 42
        stats = double.compiled().stats
        print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
    """
    variables = {"package_root": package.root, "NUMBA_CACHE_DIR": str(package.cache)}
    runs = [output_of(code, kind, **variables).split() for kind in ("released", "held", "released", "held")]
    assert runs == [["0", "1"], ["0", "1"], ["1", "0"], ["1", "0"]]


def test_no_place_to_write(package: Copy, tmp_path: Path) -> None:
    """Every place that Numba tries is a file, not a folder: kernels work, compiled each time, and say so once."""
    blocked = tmp_path / "blocked"
    blocked.touch()
    (package.package / "kernels" / "__pycache__").touch()
    places = dict.fromkeys(["HOME", "XDG_CACHE_HOME", "LOCALAPPDATA", "IPYTHONDIR"], str(blocked / "sub"))
    for _ in range(2):
        done = run_python(ENTER + OUTSIDE, package_root=package.root, NUMBA_CACHE_DIR=str(blocked / "cache"), **places)
        assert done.returncode == 0, done.stderr
        assert done.stdout.split()[1:3] == ["0", "1"]
        assert done.stderr.count("RuntimeWarning: compiled kernels cannot be kept") == 1
        assert "NUMBA_CACHE_DIR" in done.stderr


#: Obey the modes of directories, as root does only once it has given CAP_DAC_OVERRIDE up.
AS_ANOTHER = """
    import ctypes, os
    if os.getuid() == 0:
        libc, header, sets = ctypes.CDLL(None), (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
        assert libc.capget(header, sets) == 0
        sets[0] &= ~(1 << 1)
        assert libc.capset(header, sets) == 0
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs modes that can be made to hold for root")
@pytest.mark.parametrize("warmed", ["beside the package", "in NUMBA_CACHE_DIR"])
def test_kernels_of_another_user(package: Copy, warmed: str) -> None:
    """Compiled as root into an image and run as somebody else: read there, not written, and nothing is said."""
    beside = warmed == "beside the package"
    place = package.package / "kernels" / "__pycache__" if beside else package.cache
    directory = None if beside else str(package.cache)
    nowhere = dict.fromkeys(["HOME", "XDG_CACHE_HOME", "LOCALAPPDATA", "IPYTHONDIR"], str(package.root / "none"))
    variables = {"package_root": package.root, "NUMBA_CACHE_DIR": directory, "NUMBA_BOUNDSCHECK": None, **nowhere}
    assert output_of(ENTER, **variables).split()[1:] == ["0", "1"]
    folders = [package.root, package.package / "kernels", place, *(path for path in place.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    files = sorted(place.rglob("*"))
    try:
        done = run_python(AS_ANOTHER + ENTER, **variables)
        assert done.returncode == 0, done.stderr
        assert (done.stdout.split()[1:], done.stderr) == (["1", "0"], "")
        assert sorted(place.rglob("*")) == files
        # What is not there is compiled, and kept where this user can.
        own = package.root.parent / "own"
        own.mkdir()
        variables |= dict.fromkeys(nowhere, str(own))
        for hits in (["0", "1"], ["1", "0"]):
            done = run_python(AS_ANOTHER + ENTER, **{**variables, "NUMBA_BOUNDSCHECK": "1"})
            assert done.returncode == 0, done.stderr
            assert (done.stdout.split()[1:], done.stderr) == (hits, "")
        assert sorted(place.rglob("*")) == files
    finally:
        for folder in folders:
            folder.chmod(0o755)


def garbage(content: bytes) -> bytes:
    """Bytes that are no pickle."""
    return b"\xff" * len(content)


def flipped_bits(content: bytes) -> bytes:
    """Bytes of which ten, all over, have another bit: in machine code, among others."""
    damaged = bytearray(content)
    for tenth in range(10):
        damaged[len(content) * (2 * tenth + 1) // 20] ^= 4
    return bytes(damaged)


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
@pytest.mark.parametrize(
    "damage", [lambda content: b"", lambda content: content[: len(content) // 2], garbage, flipped_bits]
)
def test_a_damaged_cache(package: Copy, suffix: str, damage) -> None:
    """Empty, cut, overwritten or altered files of either kind: compiled again, and the next process finds it whole."""
    expected = package.output_of(ENTER)
    files = list(package.cache.rglob(f"*{suffix}"))
    assert files
    for file in files:
        file.write_bytes(damage(file.read_bytes()))
    assert package.output_of(ENTER)[0] == expected[0]
    assert package.output_of(ENTER) == [expected[0], "1", "0"]


def test_a_cache_that_vanishes(package: Copy) -> None:
    """Files taken away between two kernels, or data without an index, cost a compile."""
    expected = package.output_of(ENTER)
    for file in package.cache.rglob("*.nbc"):
        file.unlink()
    assert package.output_of(ENTER)[0] == expected[0]
    shutil.rmtree(package.cache)
    assert package.output_of(ENTER) == expected


def test_helpers_are_compiled_once(package: Copy) -> None:
    """For the types of their arguments, whatever constants are among them."""
    code = """
        from numbatok.kernels.jit import helper, kernel

        @helper
        def difference(a, b):
            return a - b

        @kernel("int64(int64)")
        def some(a):
            return difference(a, 1) + difference(difference(2, a), a)

        print(some(5), len(difference.signatures))
    """
    assert package.output_of(code) == ["-4", "1"]


def test_a_later_numba_compiles_in_its_own_way(package: Copy) -> None:
    """What is not known to have the inside that our compiler changes is left as it is."""
    later = """
    import types, numba
    numba.version_info = types.SimpleNamespace(short=(99, 0))
    """
    ours = """
    import sys
    print("numbatok.kernels.compiler" in sys.modules)
    """
    slot, *others = package.output_of(later + ENTER + ours)
    assert others == ["0", "1", "False"]
    assert package.output_of(ENTER + ours) == [slot, "1", "0", "True"]


def test_an_operator_gets_another_overload(package: Copy) -> None:
    """What was remembered of an operator's calls before somebody overloads it does no harm after."""
    code = """
        import operator
        from numba import njit, types
        from numba.extending import overload
        from numbatok.kernels.jit import kernel

        @kernel("int64(int64, int64)")
        def before(a, b):
            return a - b

        print(before(5, 3))

        @overload(operator.sub)
        def without(a, b):
            if isinstance(a, types.UnicodeType):
                return lambda a, b: len(a) * 100 + len(b)

        print(njit(lambda a, b: a - b)("abc", "a"))

        @kernel("int64(int64, int64)")
        def after(a, b):
            return a - b

        print(after(5, 3))
    """
    assert package.output_of(code) == ["2", "301", "2"]


def test_compiling_is_announced_once(package: Copy) -> None:
    """One log record at level INFO for a cold cache, none for a warm one."""
    code = """
    import logging, sys
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(name)s.%(levelname)s.")
    """
    code += ENTER + OUTSIDE
    assert package.output_of(code).count("numbatok.INFO.") == 1
    assert package.output_of(code).count("numbatok.INFO.") == 0


def test_without_a_compiler_nothing_works_and_says_why() -> None:
    """``NUMBA_DISABLE_JIT=1`` is an error that names what to use instead."""
    done = run_python("import numbatok; numbatok.get_encoding('gpt2').encode('x')", NUMBA_DISABLE_JIT="1")
    assert done.returncode == 1
    assert "cannot run with NUMBA_DISABLE_JIT=1" in done.stderr


def test_every_kernel_has_one_signature(small_ranks, small_merges) -> None:
    """Whatever was called with, and a call with other types makes no second one."""
    for tokenizer in (small_ranks, small_merges):
        tokenizer.decode(tokenizer.encode_batch(["a", b"b", bytearray(b"c")]).ids)
    assert len(kernels) > 10
    for kernel in kernels.values():
        assert len(kernel.compiled().signatures) == 1, kernel.name
        with pytest.raises(TypeError):
            kernel("not", "these", "types")
        assert len(kernel.compiled().signatures) == 1, kernel.name

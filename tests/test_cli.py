"""The command line, in this process where that will do, and in others for pipes, terminals and signals."""

import io
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import numbatok
from numbatok import cli, notices
from numbatok.cli import commands, inputs, messages, outputs
from numbatok.kernels.jit import all_kernels

TESTS = Path(__file__).parent  # where processes start: in the checkout its numbatok would come before all others
TEXT = "Hello world<|endoftext|>\nnaïve tokenizers 日本\n"


@pytest.fixture(scope="module", autouse=True)
def _kernels_are_compiled():
    """No process that a test starts has to compile, and so none says that it does."""
    assert cli.main(["warmup"]) == 0


@pytest.fixture(autouse=True)
def _quiet_again(monkeypatch):
    monkeypatch.setattr(notices, "speak_to_terminal", False)  # main sets it; set back after each test
    monkeypatch.setattr(notices, "_said", {"compiling", "cache"})


@pytest.fixture
def run(capsysbinary, monkeypatch):
    """A function that runs a command here: its exit code, its output, and what it says to people."""

    def call(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = cli.main(list(map(str, arguments)))
        out, err = capsysbinary.readouterr()
        return code, out, err.decode()

    return call


@pytest.fixture
def sample(tmp_path):
    path = tmp_path / "sample.txt"
    path.write_bytes(TEXT.encode())
    return path


def process(argv, environment=None, **options):
    """Run a command that finds this numbatok, and return what became of it."""
    package = str(Path(numbatok.__file__).parent.parent)
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("cwd", TESTS)
    return subprocess.run(
        argv,
        check=False,
        stderr=subprocess.PIPE,
        timeout=300,
        env={**os.environ, "PYTHONPATH": package, **(environment or {})},
        **options,
    )


def command(*arguments, **options):
    """Run ``python -m numbatok`` as another process."""
    return process([sys.executable, "-m", "numbatok", *map(str, arguments)], **options)


def in_shell(script):
    """Run a shell script in which ``$NUMBATOK`` is the command."""
    return process(["sh", "-c", script.replace("$NUMBATOK", f'"{sys.executable}" -m numbatok')])


# --- how it begins ---


def test_without_arguments_it_says_how_to_begin(run):
    code, out, err = run()
    assert (code, err) == (0, "")
    assert out.decode() == cli.BEGIN
    assert out.count(b"\n  numbatok ") + out.count(b" | numbatok ") == 3


def test_help_and_version(run):
    assert run("--version") == (0, f"numbatok {numbatok.__version__}\n".encode(), "")
    code, out, _ = run("--help")
    assert code == 0
    for name in (b"encode", b"decode", b"count", b"show", b"warmup"):
        assert name in out
        assert run(name.decode(), "--help")[0] == 0


@pytest.mark.parametrize(
    "wrong", [["foo"], ["encode"], ["count"], ["show", "-n", "-1"], ["show", "-n", "x"], ["--foo"]]
)
def test_wrong_commands_exit_with_2(run, wrong):
    code, out, err = run(*wrong)
    assert (code, out) == (2, b"")
    assert "usage: numbatok" in err


def test_help_imports_neither_numpy_nor_numba():
    script = (
        "import sys; from numbatok.cli import main; main(['--help'])\n"
        "sys.exit(sorted({'numpy', 'numba', 'tqdm'} & set(sys.modules)) or 0)"
    )
    result = process([sys.executable, "-c", script])
    assert (result.returncode, result.stderr) == (0, b"")


def test_compiling_is_announced(run, sample):
    run("count", sample)
    assert notices.speak_to_terminal


# --- encode ---


def test_encode_writes_a_line_for_each_file(run, sample, tmp_path, gpt2):
    (tmp_path / "empty.txt").touch()
    code, out, err = run("encode", sample, tmp_path / "empty.txt", "-", stdin=b"Hello")
    assert (code, err) == (0, "")
    assert out.decode() == " ".join(map(str, gpt2.encode(TEXT))) + "\n\n15496\n"


def test_encode_writes_many_ids(run, tmp_path, gpt2):
    path = tmp_path / "many.txt"
    path.write_bytes(b"a b " * outputs.BLOCK_IDS)
    code, out, _ = run("encode", path)
    assert code == 0
    assert np.array_equal(np.array(out.split(), np.int64), gpt2.encode(path.read_bytes()))
    assert out.count(b"\n") == 1
    assert b"  " not in out


def test_encode_to_npy(run, sample, tmp_path, gpt2):
    output = tmp_path / "out.npy"
    code, out, err = run("encode", sample, "-", sample, "-o", output, stdin=b"Hello")
    assert (code, out, err) == (0, b"", "")
    ids = np.load(output)
    assert ids.dtype == np.uint32
    one = gpt2.encode(TEXT)
    assert np.array_equal(ids, [*one, 15496, *one])
    assert sorted(os.listdir(tmp_path)) == ["out.npy", "sample.txt"]
    # The file is the one that NumPy would have written, in layout if not in white space.
    with open(output, "rb") as file:
        assert np.lib.format.read_magic(file) == (1, 0)
        assert np.lib.format.read_array_header_1_0(file) == ((len(ids),), False, np.dtype("<u4"))
        assert file.tell() % 64 == 0


def test_encode_nothing_to_npy(run, tmp_path):
    output = tmp_path / "out.npy"
    assert run("encode", "-", "-o", output)[0] == 0
    assert np.load(output).shape == (0,)


def test_a_failed_encode_leaves_the_old_output(run, sample, tmp_path):
    output = tmp_path / "out.npy"
    output.write_bytes(b"old")
    code, out, err = run("encode", sample, tmp_path / "missing.txt", "-o", output)
    assert (code, out) == (1, b"")
    assert "missing.txt: No such file" in err
    assert output.read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == ["out.npy", "sample.txt"]


@pytest.mark.skipif(os.name == "nt", reason="needs symbolic links and devices")
def test_output_through_links_and_to_devices(run, sample, tmp_path):
    target, link = tmp_path / "target.npy", tmp_path / "link.npy"
    target.touch()
    link.symlink_to(target)
    assert run("encode", sample, "-o", link)[0] == 0
    assert link.is_symlink()
    assert len(np.load(target))
    assert run("encode", sample, "-o", os.devnull)[0] == 0
    assert not os.path.isfile(os.devnull)


def test_output_that_cannot_be_written(run, sample, tmp_path):
    for path in (tmp_path, tmp_path / "no" / "out.npy"):
        code, out, err = run("encode", sample, "-o", path)
        assert (code, out) == (1, b"")
        assert err.startswith(f"numbatok: {path}: ")
        assert err.count("\n") == 1


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX modes")
@pytest.mark.parametrize("mode", [0o640, 0o600, 0o666])
def test_a_replaced_output_keeps_its_mode(run, sample, tmp_path, mode):
    output = tmp_path / "out.npy"
    output.touch()
    output.chmod(mode)
    assert run("encode", sample, "-o", output) == (0, b"", "")
    assert stat.S_IMODE(output.stat().st_mode) == mode
    assert len(np.load(output))


def test_a_read_only_output_is_not_replaced(run, sample, tmp_path, monkeypatch):
    output = tmp_path / "out.npy"
    output.write_bytes(b"old")
    output.chmod(0o444)
    real = os.access  # which lets root write to it
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and real(path, mode))
    code, out, err = run("encode", sample, "-o", output)
    assert (code, out, err) == (1, b"", f"numbatok: {output}: Permission denied\n")
    assert output.read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == ["out.npy", "sample.txt"]


def test_output_to_standard_output(run, sample, gpt2):
    code, out, err = run("encode", sample, "-", "-o", "-", stdin=b"Hello")
    assert (code, err) == (0, "")
    assert np.array_equal(np.load(io.BytesIO(out)), [*gpt2.encode(TEXT), 15496])
    code, out, err = run("encode", sample, sample.parent / "missing", "-o", "-")
    assert (code, out) == (1, b"")


@pytest.mark.skipif(not os.path.exists("/dev/stdout"), reason="needs /dev/stdout")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_to_paths_that_are_streams(sample, tmp_path, gpt2, unbuffered):
    environment = {"PYTHONUNBUFFERED": unbuffered}
    wanted = gpt2.encode(TEXT)
    result = command("encode", sample, "-o", "/dev/stdout", environment=environment)
    assert (result.returncode, result.stderr) == (0, b"")
    assert np.array_equal(np.load(io.BytesIO(result.stdout)), wanted)
    with open(tmp_path / "redirected", "wb") as file:
        assert command("encode", sample, "-o", "/dev/stdout", stdout=file, environment=environment).returncode == 0
    assert np.array_equal(np.load(tmp_path / "redirected"), wanted)
    os.mkfifo(tmp_path / "fifo")
    result = in_shell(f'cat "{tmp_path}/fifo" & $NUMBATOK encode "{sample}" -o "{tmp_path}/fifo"; wait')
    assert np.array_equal(np.load(io.BytesIO(result.stdout)), wanted)
    result = in_shell(f'exec 3>"{tmp_path}/third"; $NUMBATOK encode "{sample}" -o /dev/fd/3')
    assert result.returncode == 0
    assert np.array_equal(np.load(tmp_path / "third"), wanted)


def test_output_that_is_no_file_of_its_own(run, sample, tmp_path):
    code, out, err = run("encode", sample, "-o", "")
    assert (code, out) == (2, b"")
    assert "the name is empty" in err
    before = sample.read_bytes()
    (tmp_path / "link").symlink_to(sample)
    for output in (sample, tmp_path / "link"):
        code, out, err = run("encode", sample, "-o", output)
        assert (code, out, err) == (1, b"", f"numbatok: {output}: is to be read too; -o must lead to another file\n")
    assert sample.read_bytes() == before


def test_a_file_without_a_name(run):
    for name in ("encode", "count", "decode"):
        code, _, err = run(name, "")
        assert code == 1
        assert err.startswith("numbatok: '': No such file")


def test_special_tokens(run, sample, gpt2):
    for option in ("--special", "--allow-special"):
        assert run("encode", sample, option, "all")[1].split()[2] == b"50256"
        plain = gpt2.encode(TEXT, allowed_special=())
        assert run("count", sample, option, "none")[1].split()[0].decode() == str(len(plain))
        code, out, err = run("encode", sample, option, "error")
        assert (code, out) == (1, b"")
        assert "'<|endoftext|>' at byte 11; --special all" in err
        assert "allowed_special" not in err


def test_invalid_utf8(run, tmp_path, gpt2):
    path = tmp_path / "bad.txt"
    path.write_bytes(b"good \xffbad")
    for name in ("encode", "count", "show"):
        code, _, err = run(name, path)
        assert code == 1
        assert err.startswith(f"numbatok: {path}: not UTF-8 at byte 5 (0xff, invalid start byte")
        assert err.count("\n") == 1
    wanted = " ".join(map(str, gpt2.encode("good \ufffdbad")))
    assert run("encode", path, "--errors", "replace") == (0, wanted.encode() + b"\n", "")
    assert run("show", path, "--errors", "replace")[0] == 0


# --- decode ---


def test_decode_is_the_inverse_of_encode(run, sample, tmp_path):
    ids = run("encode", sample)[1]
    assert run("decode", stdin=ids) == (0, TEXT.encode(), "")
    assert run("decode", "--skip-special", stdin=ids)[1] == TEXT.replace("<|endoftext|>", "").encode()
    run("encode", sample, "-o", tmp_path / "ids.npy")
    (tmp_path / "ids.txt").write_bytes(b"\t\n 995\r\n")
    assert run("decode", tmp_path / "ids.npy", tmp_path / "ids.txt")[1] == TEXT.encode() + b" world"
    assert run("decode", "-", stdin=(tmp_path / "ids.npy").read_bytes())[1] == TEXT.encode()


def test_decode_takes_every_integer_type(run, tmp_path):
    for dtype in ("u2", "i8", ">i4", "u8"):
        np.save(tmp_path / "ids.npy", np.array([15496, 995], dtype))
        assert run("decode", tmp_path / "ids.npy")[1] == b"Hello world"


@pytest.mark.parametrize("block", [5, 6, 7, 64])
def test_decode_reads_in_blocks(run, monkeypatch, block):
    monkeypatch.setattr(inputs, "BLOCK_BYTES", block)
    assert run("decode", stdin=b" 15496  995\n\n50256 0 \n1 ")[1] == b'Hello world<|endoftext|>!"'
    assert "position 4 " in run("decode", stdin=b" 1  2\n\n3 0 \n77777 ")[2]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (b"1 2 50257", "id 50257 at position 2 is not in this vocabulary of 50257 tokens"),
        (b"1 -5", "id -5 at position 1 is not in this vocabulary of 50257 tokens"),
        (b"9" * 30, f"id {'9' * 30} at position 0 is not in"),
        (b"1 " + b"9" * 9999, f"id {'9' * 40}... at position 1 is not in"),
        (b"1 2 abc 4", "'abc' at position 2 is not an id"),
        (b"1_0", "'1_0' at position 0 is not an id"),
        (b"1 \x1b[2J\xff", r"'\x1b[2J\xff' at position 1 is not an id"),
        (b"1 2-3", "'2-3' at position 1 is not an id"),
    ],
)
def test_bad_ids(run, tmp_path, ids, message):
    path = tmp_path / "ids.txt"
    path.write_bytes(ids)
    code, out, err = run("decode", path)
    assert (code, out) == (1, b"")
    assert err.startswith(f"numbatok: {path}: {message}")
    assert err.count("\n") == 1


def test_bad_npy_files(run, tmp_path):
    path = tmp_path / "ids.npy"
    bad = [np.zeros((2, 2), int), np.zeros(3), np.array([1, 50257]), np.array(5), np.array([1, "a", None], object)]
    for array in bad:
        np.save(path, array, allow_pickle=True)
        code, out, err = run("decode", path)
        assert (code, out) == (1, b"")
        assert err.startswith(f"numbatok: {path}: ")
        assert err.count("\n") == 1
    np.save(path, np.arange(100))
    whole = path.read_bytes()
    for length in (6, 8, 9, 20, 127, 300):
        path.write_bytes(whole[:length])
        code, out, err = run("decode", path)
        assert (code, out) == (1, b"")
        assert "a .npy file that cannot be read" in err


# --- count ---


def test_count(run, sample, tmp_path, gpt2):
    (tmp_path / "empty.txt").touch()
    tokens = len(gpt2.encode(TEXT))
    size = len(TEXT.encode())
    assert run("count", sample) == (0, f"{tokens} {size} {sample}\n".encode(), "")
    code, out, err = run("count", sample, tmp_path / "empty.txt")
    assert (code, err) == (0, "")
    assert out.decode() == f"{tokens} {size} {sample}\n 0  0 {tmp_path / 'empty.txt'}\n{tokens} {size} total\n"
    assert run("count", "-", stdin=TEXT.encode())[1].decode() == f"{tokens:7} {size:7} -\n"


def test_count_goes_on_after_a_bad_file(run, sample, tmp_path):
    code, out, err = run("count", tmp_path / "missing", sample, tmp_path, sample)
    assert code == 1
    assert out.count(b"\n") == 3
    assert f"numbatok: {tmp_path / 'missing'}: No such file" in err
    assert f"numbatok: {tmp_path}: " in err
    assert err.count("\n") == 2


@pytest.mark.parametrize("name", ["count", "encode", "show"])
def test_a_wrong_environment_is_said_once(run, sample, monkeypatch, name):
    monkeypatch.setenv("NUMBATOK_NUM_THREADS", "abc")
    said = "numbatok: the environment variable NUMBATOK_NUM_THREADS must be an integer of at least 1, not 'abc'\n"
    assert run(name, sample, sample) == (2, b"", said)
    assert run("--version")[0] == 0


@pytest.mark.skipif(sys.platform != "linux", reason="needs file names of any bytes")
def test_odd_file_names(run, tmp_path):
    name = tmp_path / os.fsdecode(b"a\x1b[2J \xff\n.txt")
    name.write_bytes(b"Hello")
    assert run("count", name)[1] == f"1 5 {tmp_path}/a\\x1b[2J \\xff\\n.txt\n".encode()
    name.write_bytes(b"\xff")
    assert run("count", name)[2].startswith(f"numbatok: {tmp_path}/a\\x1b[2J \\xff\\n.txt: not UTF-8 at byte 0")
    code, _, said = run("warmup", name)
    assert (code, said.splitlines()[-1]) == (
        2,
        f"numbatok: error: unrecognized arguments: {tmp_path}/a\\x1b[2J \\xff\\n.txt",
    )


# --- show ---


def test_show(run, sample):
    code, out, err = run("show", stdin=b"Hello tokenizer")
    assert (code, err) == (0, "")
    assert out.decode().splitlines()[1:] == [
        '       0  0-5    15496  "Hello"',
        '       1  5-11   11241  " token"',
        '       1  11-15   7509  "izer"',
    ]
    assert "'-5' is not a number of tokens to show; wanted 1 or more, or 0 to show all" in run("show", "-n", "-5")[2]
    many = run("show", sample, "-", "-n", "1", stdin=b"x")[1].decode().splitlines()
    assert many[0] == f"==> {sample} <=="
    assert many[3].startswith("... ")
    assert many[4] == "==> - <=="
    everything = run("show", "-n", "0", stdin=b"a b " * 500)[1].decode()
    assert len(everything.splitlines()) == 1002
    assert run("show", stdin=b"a b " * 500)[1].decode().splitlines()[-1].startswith("... 801 more tokens")


def test_show_in_colour(run, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert b"\x1b[38;5;16;48;5;153mHello\x1b[0m" in run("show", stdin=b"Hello")[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert b"\x1b" not in run("show", stdin=b"Hello")[1]


def test_show_where_the_encoding_is_poor():
    result = command("show", input="naïve é".encode(), environment={"PYTHONIOENCODING": "ascii"})
    assert (result.returncode, result.stderr) == (0, b"")
    assert rb'"\xefve"' in result.stdout


# --- -t ---


def test_tokenizer_names(run, sample, tmp_path):
    assert run("count", "-t", "r50k_base", sample)[1] == run("count", sample)[1]
    code, _, err = run("count", "-t", "nope", sample)
    assert (code, err.count("\n")) == (1, 1)
    assert "nope: neither an encoding (cl100k_base, gpt2" in err
    broken = tmp_path / "tokenizer.json"
    assert "No such file" in run("count", "-t", broken, sample)[2]
    for content in (b"", b"{}", b"\xff", b'{"model": {"type": "Unigram"}}'):
        broken.write_bytes(content)
        code, out, err = run("count", "-t", broken, sample)
        assert (code, out, err.count("\n")) == (1, b"", 1)
        assert err.startswith(f"numbatok: {broken}: ")
        assert err.count(str(broken)) == 1


# --- warmup ---


def test_warmup(run):
    kernels = {kernel.name for kernel in all_kernels()}

    code, out, err = run("warmup", "-v")
    assert (code, err) == (0, "")
    lines = out.decode().splitlines()
    assert len(lines) == len(kernels) + 1
    assert {line.split()[-1] for line in lines[:-1]} == set(kernels)
    assert lines[-1].startswith(f"{len(kernels)} kernels ")


def test_warmup_for_one_tokenizer(run):
    kernels = {kernel.name for kernel in all_kernels()}

    code, out, err = run("warmup", "-v", "-t", "gpt2")
    assert (code, err) == (0, "")
    names = {line.split()[-1] for line in out.decode().splitlines()[:-1]}
    assert {"walk_r50k", "merge_pretoken", "decode_documents", "transcode_utf8"} <= names <= set(kernels)
    assert run("warmup", "-t", "nope")[0] == 1
    # In this process others are compiled already: in one of its own those of other tokenizers are left alone.
    result = command("warmup", "-v", "-t", "gpt2")
    assert result.returncode == 0
    seen = {line.split()[-1].decode() for line in result.stdout.splitlines()[:-1]}
    assert {"walk_r50k", "merge_pretoken", "decode_documents", "transcode_utf8"} <= seen
    assert not seen & {"walk_automaton", "walk_cl100k", "walk_o200k", "merge_pretoken_by_options"}


def test_jit_switched_off_is_said_in_a_line(sample, tmp_path):
    for arguments in (["count", sample], ["encode", sample, "-o", f"{tmp_path}/out/"]):
        result = command(*arguments, environment={"NUMBA_DISABLE_JIT": "1"})
        assert result.returncode == 1
        assert result.stderr.count(b"\n") == 1
        assert b"NUMBA_DISABLE_JIT" in result.stderr


# --- processes, pipes, terminals ---


def test_module_in_a_process(sample, gpt2):
    result = command("encode", sample)
    assert result.returncode == 0
    assert np.array_equal(np.array(result.stdout.split(), np.int64), gpt2.encode(TEXT))


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX pipes")
def test_a_reader_that_has_gone_is_no_error(tmp_path):
    path = tmp_path / "long.txt"
    path.write_bytes(b"a b " * 500_000)
    for environment in ("PYTHONUNBUFFERED=", "PYTHONUNBUFFERED=1"):
        for begun in ("encode", "encode -o -", "encode -o /dev/stdout"):
            result = in_shell(f'({environment} $NUMBATOK {begun} "{path}"; echo $? >&2) | head -c 3')
            assert len(result.stdout) == 3
            assert result.stderr.splitlines()[-1] == b"141"
            assert b"rror" not in result.stderr


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX pipes")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_slow_reader_gets_all(tmp_path, unbuffered):
    path = tmp_path / "ids.npy"
    np.save(path, np.full(1_000_000, 995, np.uint16))
    script = f'PYTHONUNBUFFERED={unbuffered} $NUMBATOK decode "{path}" | (sleep 0.2; wc -c)'
    assert in_shell(script).stdout.split() == [b"6000000"]
    script = f'(PYTHONUNBUFFERED={unbuffered} $NUMBATOK decode "{path}"; echo $? >&2) | head -c 3'
    assert in_shell(script).stderr.splitlines()[-1] == b"141"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_said_in_a_line(sample):
    for arguments in (["encode", sample], ["count", sample], ["--help"], ["--version"], ["count", "--help"], []):
        for unbuffered in ("", "1"):
            with open("/dev/full", "wb") as full:
                result = command(*arguments, stdout=full, environment={"PYTHONUNBUFFERED": unbuffered})
            assert result.returncode == 1
            assert result.stderr.splitlines()[-1] == b"numbatok: standard output: No space left on device"


@pytest.mark.skipif(os.name == "nt", reason="needs sh")
def test_closed_standard_streams():
    result = in_shell("$NUMBATOK decode - <&-")
    assert (result.returncode, result.stdout) == (1, b"")
    assert result.stderr.splitlines()[-1] == b"numbatok: standard input: is closed"
    result = in_shell("$NUMBATOK count missing >&-")
    assert result.returncode == 1
    assert b"Traceback" not in result.stderr
    assert in_shell("$NUMBATOK count missing 2>&-").returncode == 1


def test_interrupt(run, sample, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "discard_output", lambda: None)
    monkeypatch.setattr(commands, "read", interrupt)
    assert run("encode", sample) == (130, b"", "")


def test_interrupt_leaves_no_file(run, sample, tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "discard_output", lambda: None)
    monkeypatch.setattr(commands, "read", interrupt)
    assert run("encode", sample, "-o", tmp_path / "out.npy")[0] == 130
    assert os.listdir(tmp_path) == ["sample.txt"]


def at_terminal(arguments, environment=None):
    """(exit code, what a terminal gets) of ``python -m numbatok`` with all three streams on one."""
    pty = pytest.importorskip("pty", reason="needs pseudo-terminals")
    if sys.platform != "linux":
        pytest.skip("reading a closed pseudo-terminal differs elsewhere")
    ours, theirs = pty.openpty()
    inherited = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    running = subprocess.Popen(
        [sys.executable, "-m", "numbatok", *map(str, arguments)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=TESTS,
        env={
            **inherited,
            "TERM": "xterm-256color",
            "PYTHONPATH": str(Path(numbatok.__file__).parent.parent),
            **(environment or {}),
        },
    )
    os.close(theirs)
    received, deadline = b"", time.monotonic() + 300
    while time.monotonic() < deadline:
        try:
            part = os.read(ours, 65536)
        except OSError:  # EIO: the other side is closed
            break
        if not part:
            break
        received += part
    os.close(ours)
    return running.wait(timeout=60), received


def test_show_on_a_terminal(sample):
    code, seen = at_terminal(["show", sample])
    assert code == 0
    assert b"\x1b[38;5;16;48;5;153mHello\x1b[0m" in seen
    code, seen = at_terminal(["show", sample], {"NO_COLOR": "1"})
    assert code == 0
    assert b"\x1b" not in seen


def test_progress_on_a_terminal(tmp_path):
    big = tmp_path / "big.txt"
    big.write_bytes(b"some words and more of them\n" * (messages.BIG_FILE // 28 + 1))
    code, seen = at_terminal(["encode", big, "-o", tmp_path / "out.npy"], {"COLUMNS": "200"})
    assert code == 0
    line = f"encoding {big}, 8.4 MB ...".encode()
    assert b"\r" + line.ljust(199) + b"\r" + b" " * 199 + b"\r" in seen  # said, and taken back
    assert b"ids of 8.4 MB in " in seen


def test_no_progress_when_piped(run, tmp_path, monkeypatch):
    monkeypatch.setattr(messages, "BIG_FILE", 0)
    path = tmp_path / "a.txt"
    path.write_bytes(b"a")
    assert run("encode", path, path, "-o", tmp_path / "out.npy") == (0, b"", "")
    assert run("count", path, path)[2] == ""


@pytest.mark.parametrize("installed", [True, False])
def test_bar_of_many_files(monkeypatch, installed):
    made = []

    class Module:
        @staticmethod
        def tqdm(names, **options):
            made.append(options)
            return names

    def find(name):
        assert name == "tqdm"
        if not installed:
            raise ImportError(name)
        return Module

    monkeypatch.setattr(messages, "import_module", find)
    monkeypatch.setattr(messages, "watched", lambda: True)
    assert list(messages.with_bar(["a", "b"], visible=True)) == ["a", "b"]
    assert len(made) == installed
    messages.with_bar(["a"], visible=True)
    messages.with_bar(["a", "b"], visible=False)
    assert len(made) == installed


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (95_400_000, "95 MB"), (2_340_000_000, "2.3 GB")],
)
def test_sizes_for_people(size, text):
    assert messages.size_for_people(size) == text

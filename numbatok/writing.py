"""Files that appear whole or not at all."""

import os
import stat
from os import PathLike


def write_whole(content: bytes, path: str | PathLike[str]) -> None:
    """Write a file beside its place, and rename it into it; it has the mode of the file that was there, if one was.

    Raises OSError, and leaves the old file as it is, where that can't be done.
    """
    folder, name = os.path.split(os.path.abspath(os.fspath(path)))
    temporary = os.path.join(folder, f".{name}.{os.urandom(4).hex()}")
    mode = _mode(path)

    def create(file: str, flags: int) -> int:
        return os.open(file, flags, 0o666 if mode is None else 0o600)  # nobody else's before it has its mode

    try:
        with open(temporary, "xb", opener=create) as file:
            try:
                file.write(content)
                file.close()
                if mode is not None:
                    os.chmod(temporary, mode)
                os.replace(temporary, path)
            except BaseException:
                file.close()
                os.unlink(temporary)
                raise
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None  # of the file beside it nobody knows


def _mode(path: str | PathLike[str]) -> int | None:
    """The permissions of the file that is there, or None where a new one gets the usual ones."""
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except FileNotFoundError:
        return None

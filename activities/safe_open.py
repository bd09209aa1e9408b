"""Opens files below a folder, safe from links, races and special files in it. On Linux the kernel keeps the path below
the folder (openat2(2), RESOLVE_BENEATH): links that stay inside are followed, others rejected. Without openat2, each
part of the path is opened separately and no link is followed.
"""

import ctypes
import errno
import os
import platform
import stat
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

_SYS_OPENAT2 = 437
"""The number is the same on every architecture (asm-generic/unistd.h) except alpha."""
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_BENEATH = 0x08
_SAFE_FLAGS = os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
_RACED = errno.EAGAIN
_RACE_ATTEMPTS = 50
_OUTSIDE = frozenset({errno.EXDEV, errno.ELOOP})

MAX_PATH_CHARS = 1_024


class PathError(Exception):
    """The path cannot be opened. The message gives the reason, and contains no path but the caller's."""


class PathNotFound(PathError):
    """The file does not exist."""


class _OpenHow(ctypes.Structure):
    """`struct open_how` of openat2(2)."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def _openat2_of_libc() -> ctypes.CDLL | None:
    if sys.platform != "linux" or platform.machine().startswith("alpha"):
        return None
    return ctypes.CDLL(None, use_errno=True)


_LIBC = _openat2_of_libc()


def relative_path(text: str) -> PurePosixPath:
    """`text` as a path below a folder. Raises `PathError` when it is absolute, contains `..` or cannot exist."""
    if not text or len(text) > MAX_PATH_CHARS or "\0" in text:
        raise PathError(f"A path has 1 to {MAX_PATH_CHARS} characters, none of them NUL.")
    path = PurePosixPath(text)
    if path.is_absolute() or ".." in path.parts:
        raise PathError(f"{text!r} is outside the folder: use a path relative to it, without `..`.")
    return path


@contextmanager
def opened_folder(path: Path) -> Generator[int]:
    """Provide a descriptor of the folder `path` itself. Raises `OSError` when there is none or it is a link."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield folder
    finally:
        os.close(folder)


def open_file_below(folder: int, path: str) -> int:
    """A descriptor for reading the regular file `path` below `folder`. The caller closes it. Raises `PathError` for a
    path or a link that leads outside, and for anything but a regular file (folders, FIFOs, devices, sockets). Never
    blocks, not even on a FIFO without a writer.
    """
    descriptor = _open(folder, relative_path(path), path)
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISREG(kind):
        return descriptor
    os.close(descriptor)
    what = "a folder" if stat.S_ISDIR(kind) else "not a regular file"
    raise PathError(f"{path!r} is {what}; only files can be read.")


def _open(folder: int, path: PurePosixPath, named: str) -> int:
    try:
        return _open_by_kernel(folder, path) if _LIBC is not None else _open_by_steps(folder, path)
    except FileNotFoundError:
        raise PathNotFound(f"There is no file {named!r}.") from None
    except NotADirectoryError:
        raise PathNotFound(f"There is no file {named!r}: a part of its path is not a folder.") from None
    except PermissionError:
        raise PathError(f"{named!r} is not readable: permission denied.") from None
    except OSError as error:
        if error.errno in _OUTSIDE:
            raise PathError(f"{named!r} is outside the folder: it goes through a link that is not followed.") from None
        if error.errno in (errno.ENXIO, errno.ENODEV, errno.EINVAL, errno.ENAMETOOLONG):
            raise PathError(f"{named!r} is not a regular file; only files can be read.") from None
        raise


def _open_by_kernel(folder: int, path: PurePosixPath) -> int:
    assert _LIBC is not None
    how = _OpenHow(os.O_RDONLY | _SAFE_FLAGS, 0, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS)
    for _ in range(_RACE_ATTEMPTS):
        found: int = _LIBC.syscall(
            ctypes.c_long(_SYS_OPENAT2),
            ctypes.c_int(folder),
            ctypes.c_char_p(os.fsencode(str(path))),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
        if found >= 0:
            return found
        number = ctypes.get_errno()
        if number in (errno.ENOSYS, errno.EPERM):  # an older kernel, or a container that forbids unknown calls
            return _open_by_steps(folder, path)
        if number != _RACED:  # a folder above is being renamed: look again
            raise OSError(number, os.strerror(number), str(path))
    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(path))


def _open_by_steps(folder: int, path: PurePosixPath) -> int:
    """Without openat2: one step at a time, no link followed."""
    current = os.dup(folder)
    try:
        for part in path.parts[:-1]:
            step = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=current)
            os.close(current)
            current = step
        return os.open(path.name or ".", os.O_RDONLY | os.O_NOFOLLOW | _SAFE_FLAGS, dir_fd=current)
    finally:
        os.close(current)

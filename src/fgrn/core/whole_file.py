"""Files that are written completely or not at all, and locks on files that one process writes for a long time.

Every file this package writes is written here. The bytes go to a part file beside the file they replace, which takes
its place when it is complete:

    .fgrn-<machine>-<process>-<random>.part

Each writer locks its own part file while writing. If the process is killed, the part file stays but its lock is
released, so the next write in the same folder recognises the file as a leftover and removes it. Where locks do not work
(a network file system without locks, a process on another machine), a part file counts as a leftover when nothing has
been written to it for a day.
"""

from __future__ import annotations

import errno
import io
import os
import platform
import re
import secrets
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

DAY = 24 * 60 * 60.0
"""Seconds without a write after which a part file is a leftover if its lock cannot be tested."""

LOCK_PATIENCE = 1.0
"""Seconds to wait for a lock: a process that only looks for leftovers holds it for an instant."""

MOST_TRIES = 100
"""How often creating a part file is tried: another writer may remove it before it is locked."""

LOCK_BYTE = 2**30
"""The offset of the byte that is locked on Windows, where a locked byte cannot be read: beyond the content."""

MACHINE = sha256(platform.node().encode()).hexdigest()[:8]
LEFTOVER = re.compile(r"\.fgrn-(?:(?P<machine>[0-9a-f]{8})-[0-9]+-)?[0-9a-f]+\.part|\..+\.fgrn-lock")
CLOSED_ON_EXEC = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOINHERIT", 0) | getattr(os, "O_BINARY", 0)
NO_LINK = getattr(os, "O_NOFOLLOW", 0)


class FileLocked(Exception):
    """The error for a file that another run has locked; the message says which run."""


def reason_of(error: Exception) -> str:
    """Return the message of an error of the operating system as a part of a sentence."""
    text = (isinstance(error, OSError) and error.strerror) or str(error)
    return text[:1].lower() + text[1:].rstrip(".")


# Writing completely or not at all


def write_whole(place: Path, data: bytes, tidy: bool = True) -> None:
    """Write all bytes to a file or, on an error of the operating system, leave the old file as it was."""
    with replacing(place, tidy) as file:
        file.write(data)


@contextmanager
def replacing(place: Path, tidy: bool = True) -> Iterator[io.BufferedWriter]:
    """Open a file for writing that replaces the old one when the context ends, and is removed on an error.

    It has the permissions of the file it replaces; a new one has those of any new file. Through a symbolic link the
    file it leads to is replaced, where the system would let `open(place, "w")` follow it.

    Args:
        place: the path of the file.
        tidy: whether to remove the part files left in the folder by processes that were killed.
    """
    target, old = _target(place)
    part = target.with_name(f".fgrn-{MACHINE}-{os.getpid()}-{secrets.token_hex(8)}.part")
    try:
        with _create_part(part, old) as file:
            if tidy:
                _remove_leftovers(part)
            yield file
            file.flush()
            os.fsync(file.fileno())
            if os.name != "nt":  # before the lock is gone
                part.replace(target)
        if os.name == "nt":  # where an open file cannot be renamed, nor removed by others
            part.replace(target)
    except FileNotFoundError as error:
        if target.parent.is_dir():
            raise
        raise FileNotFoundError(errno.ENOENT, f"there is no folder {str(target.parent)!r}") from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _target(place: Path) -> tuple[Path, os.stat_result | None]:
    """Return the file to replace, at the end of all links, and its status; None if it does not exist yet.

    The operating system follows the links first, as it refuses some, such as links of other users in a shared folder.
    """
    try:
        found = place.stat()
    except FileNotFoundError:
        return place.resolve(), None
    if not stat.S_ISREG(found.st_mode):
        raise OSError("something that is not a file has this name")
    try:
        os.close(os.open(place, os.O_WRONLY | CLOSED_ON_EXEC))
    except PermissionError as error:
        raise PermissionError(error.errno, "the file of this name is write-protected") from error
    return place.resolve(), found


def _create_part(part: Path, old: os.stat_result | None) -> io.BufferedWriter:
    """Create and lock a part file with the owner and the permissions of the old file."""
    tries = 0
    while True:
        tries += 1
        # a file that replaces a private one is private from its first byte on
        number = os.open(
            part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINK | CLOSED_ON_EXEC, 0o666 if old is None else 0o600
        )
        file = os.fdopen(number, "wb")
        try:
            is_mine = os.name == "nt" or (_try_lock(number) is not False and _is_at(number, part))
            if is_mine or tries == MOST_TRIES:  # the file system cannot tell whether the file is still there
                if old is not None:
                    _copy_owner_and_permissions(part, old)
                return file
        except BaseException:
            file.close()
            raise
        file.close()  # another writer took it for a leftover before it was locked
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _copy_owner_and_permissions(part: Path, old: os.stat_result) -> None:
    """Give a part file the owner, where allowed, and the permissions of the file it replaces."""
    made = part.stat()
    if hasattr(os, "chown") and (made.st_uid, made.st_gid) != (old.st_uid, old.st_gid):
        for owner in (old.st_uid, -1):
            with suppress(OSError):
                os.chown(part, owner, old.st_gid)
                break
    with suppress(OSError):
        part.chmod(stat.S_IMODE(old.st_mode))


def _remove_leftovers(mine: Path) -> None:
    """Remove part files of killed writers beside a part file, ignoring errors of the operating system.

    Ages are relative to that of the own part file, whose time stamp comes from the same clock.
    """
    with suppress(OSError):
        now = mine.stat().st_mtime
        with os.scandir(mine.parent) as entries:
            found = [(entry, match) for entry in entries if (match := LEFTOVER.fullmatch(entry.name))]
        for entry, match in found:
            with suppress(OSError):
                if entry.name != mine.name and entry.is_file(follow_symlinks=False):
                    is_old = now - entry.stat(follow_symlinks=False).st_mtime > DAY
                    _remove_leftover(Path(entry.path), is_old, is_old or match["machine"] == MACHINE)


def _remove_leftover(path: Path, if_unknown: bool, if_free: bool) -> None:
    """Remove a part file if its lock is free and `if_free`, or cannot be tested and `if_unknown`."""
    if os.name == "nt":
        if if_free:
            path.unlink()
        return
    number = os.open(path, os.O_WRONLY | os.O_NONBLOCK | NO_LINK | CLOSED_ON_EXEC)
    try:
        lock = _try_lock(number)
        if (if_free if lock else if_unknown) and lock is not False:
            path.unlink()
    finally:
        os.close(number)


# Locks


@contextmanager
def locked(place: Path) -> Iterator[None]:
    """Hold a lock on a file for as long as the context lasts; `FileLocked` if another run holds it.

    It is a lock of the operating system on a small file `.<name>.fgrn-lock` beside the file, and is released when the
    process ends in whatever way. If the file system has no locks, or the file cannot be created, nothing is locked.
    """
    lock, number = _acquire_lock(place)
    try:
        yield
    finally:
        if number is not None and lock is not None:
            if os.name == "nt":  # where an open file cannot be removed
                os.close(number)
            with suppress(OSError):
                lock.unlink()
            if os.name != "nt":
                os.close(number)


def _acquire_lock(place: Path) -> tuple[Path | None, int | None]:
    """Return the lock file and its descriptor, locked; (None, None) if no lock is possible."""
    give_up = time.monotonic() + LOCK_PATIENCE
    while True:
        try:
            target = place.resolve()
            lock = target.with_name(f".{target.name}.fgrn-lock")
            number = _open_lock_file(lock)
        except (OSError, RuntimeError, ValueError):  # writing the file itself will report the error
            return None, None
        got = _try_lock(number)
        if got and _is_at(number, lock):
            with suppress(OSError):  # the holder, read by `_holder_in_words`
                os.ftruncate(number, 0)
                os.write(number, f"{os.getpid()} {platform.node()}".encode())
            return lock, number
        holder = os.read(number, 300).decode(errors="replace")
        os.close(number)
        if got is None:
            with suppress(OSError):
                lock.unlink()
            return None, None
        if time.monotonic() > give_up:
            if got:  # a file system without stable file identities
                return None, None
            raise FileLocked(_holder_in_words(holder))
        time.sleep(0.02)


def _open_lock_file(lock: Path) -> int:
    try:
        return os.open(lock, os.O_RDWR | os.O_CREAT | NO_LINK | CLOSED_ON_EXEC, 0o666)
    except PermissionError:  # the file of another user: reading is enough to test the lock
        return os.open(lock, os.O_RDONLY | NO_LINK | CLOSED_ON_EXEC)


def _holder_in_words(holder: str) -> str:
    """Return who holds a lock, in words, from the content of the lock file."""
    process, _, machine = holder.partition(" ")
    if not process.isdecimal():
        return "another process"
    if machine != platform.node():
        return f"process {process} on {machine!r}"
    return "another run of this process" if int(process) == os.getpid() else f"process {process}"


def _is_at(number: int, path: Path) -> bool:
    """Return whether an open file is still the one at the path."""
    try:
        return os.path.samestat(os.fstat(number), path.stat(follow_symlinks=False))
    except OSError:
        return False


def _try_lock(number: int) -> bool | None:
    """Lock an open file until it is closed. False if another process holds the lock, None if locks do not work."""
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(number, LOCK_BYTE, os.SEEK_SET)
            try:
                msvcrt.locking(number, msvcrt.LK_NBLCK, 1)
            finally:
                os.lseek(number, 0, os.SEEK_SET)
        else:
            import fcntl

            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in (errno.EAGAIN, errno.EACCES, errno.EWOULDBLOCK) else None
    return True

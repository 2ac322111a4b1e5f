"""Files that are written completely or not at all, and locks on files that one process writes for a long time.

Every file this package writes is written here. The bytes go to a part file beside the file they replace, which takes
its place when it is complete:

    .fgrn-<machine>-<process>-<random>.part

Each writer has a part file of its own, locked while it is written. A process that is killed leaves its part file, and
the lock is gone with the process: that is how the next write in the same folder finds and removes it. Where a lock
tells nothing (a network file system without locks, a process on another machine) a part file is left over once nothing
has been written to it for a day.
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
"""Seconds after which a part file of which nothing else is known is left over."""

PATIENCE = 1.0
"""Seconds to wait for a lock: who only looks for leftovers has it for an instant."""

MOST_TRIES = 100
"""How often a part file is made before it is taken as it is: each other writer may remove one, for a moment."""

LOCK_BYTE = 2**30
"""The byte that is locked on Windows, where nobody can read what is locked."""

MACHINE = sha256(platform.node().encode()).hexdigest()[:8]
LEFT = re.compile(r"\.fgrn-(?:(?P<machine>[0-9a-f]{8})-[0-9]+-)?[0-9a-f]+\.part|\..+\.fgrn-lock")
CLOSED_ON_EXEC = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOINHERIT", 0) | getattr(os, "O_BINARY", 0)
NO_LINK = getattr(os, "O_NOFOLLOW", 0)


class Taken(Exception):
    """The lock of a file is held by another run; the message says which."""


def reason(error: Exception) -> str:
    """What the system says, as a part of a sentence."""
    text = (isinstance(error, OSError) and error.strerror) or str(error)
    return text[:1].lower() + text[1:].rstrip(".")


# Complete or not at all


def write(place: Path, data: bytes, tidy: bool = True) -> None:
    """Write bytes to a file: all of them or, with an error of the system, none. See `replacing`."""
    with replacing(place, tidy) as file:
        file.write(data)


@contextmanager
def replacing(place: Path, tidy: bool = True) -> Iterator[io.BufferedWriter]:
    """A file to write to that takes the place of the old one when it is complete, and vanishes if it is not.

    It has the permissions of the file it replaces; a new one has those of any new file. Through a symbolic link the
    file it leads to is replaced, where the system would let `open(place, "w")` follow it.

    Args:
        place: of the file.
        tidy: first remove what writers that were killed have left in the folder.
    """
    target, old = _target(place)
    part = target.with_name(f".fgrn-{MACHINE}-{os.getpid()}-{secrets.token_hex(8)}.part")
    try:
        with _created(part, old) as file:
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
    """The file to replace, at the end of all links, and what the system knows of it; None if it is not there yet.

    Links are followed by the system first: some are not, such as those that others put into a shared folder.
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


def _created(part: Path, old: os.stat_result | None) -> io.BufferedWriter:
    """A new, locked part file with the owner and the permissions of the old file."""
    tries = 0
    while True:
        tries += 1
        # what replaces a private file is private from its first byte on
        number = os.open(
            part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINK | CLOSED_ON_EXEC, 0o666 if old is None else 0o600
        )
        file = os.fdopen(number, "wb")
        try:
            is_mine = os.name == "nt" or (_locked(number) is not False and _is_at(number, part))
            if is_mine or tries == MOST_TRIES:  # nobody takes so many away: here it cannot be told
                if old is not None:
                    _like(part, old)
                return file
        except BaseException:
            file.close()
            raise
        file.close()  # taken for a leftover before it was locked
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _like(part: Path, old: os.stat_result) -> None:
    """Give a part file the owner, where that is allowed, and the permissions of the file it replaces."""
    made = part.stat()
    if hasattr(os, "chown") and (made.st_uid, made.st_gid) != (old.st_uid, old.st_gid):
        for owner in (old.st_uid, -1):
            with suppress(OSError):
                os.chown(part, owner, old.st_gid)
                break
    with suppress(OSError):
        part.chmod(stat.S_IMODE(old.st_mode))


def _remove_leftovers(mine: Path) -> None:
    """Remove what writers that were killed have left beside a part file; the errors of the system are nobody's concern.

    Ages are compared with that of the part file, whose time comes from the same clock.
    """
    with suppress(OSError):
        now = mine.stat().st_mtime
        with os.scandir(mine.parent) as entries:
            found = [(entry, match) for entry in entries if (match := LEFT.fullmatch(entry.name))]
        for entry, match in found:
            with suppress(OSError):
                if entry.name != mine.name and entry.is_file(follow_symlinks=False):
                    is_old = now - entry.stat(follow_symlinks=False).st_mtime > DAY
                    _remove_if_left(Path(entry.path), is_old, is_old or match["machine"] == MACHINE)


def _remove_if_left(path: Path, if_unknown: bool, if_free: bool) -> None:
    """Remove a file whose lock is free, or of which no lock can be had, if that is reason enough."""
    if os.name == "nt":
        if if_free:
            path.unlink()
        return
    number = os.open(path, os.O_WRONLY | os.O_NONBLOCK | NO_LINK | CLOSED_ON_EXEC)
    try:
        lock = _locked(number)
        if (if_free if lock else if_unknown) and lock is not False:
            path.unlink()
    finally:
        os.close(number)


# Locks


@contextmanager
def locked(place: Path) -> Iterator[None]:
    """Be the only one who writes a file, for as long as the context lasts; `Taken` if another run is.

    The lock is one of the operating system, on a small file `.<name>.fgrn-lock` beside the file: it ends with the
    process, however that ends. Where the file system has no locks, or no file can be made, there is none.
    """
    lock, number = _lock_of(place)
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


def _lock_of(place: Path) -> tuple[Path | None, int | None]:
    """The file of a lock and its number as an open file, locked; None without a lock."""
    give_up = time.monotonic() + PATIENCE
    while True:
        try:
            target = place.resolve()
            lock = target.with_name(f".{target.name}.fgrn-lock")
            number = _opened_lock(lock)
        except (OSError, RuntimeError, ValueError):  # writing the file itself will tell what is wrong
            return None, None
        got = _locked(number)
        if got and _is_at(number, lock):
            with suppress(OSError):  # who it is, for others to read
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
            if got:  # a file system that does not know a file by its name again
                return None, None
            raise Taken(_told(holder))
        time.sleep(0.02)


def _opened_lock(lock: Path) -> int:
    try:
        return os.open(lock, os.O_RDWR | os.O_CREAT | NO_LINK | CLOSED_ON_EXEC, 0o666)
    except PermissionError:  # of somebody else, whose lock counts all the same
        return os.open(lock, os.O_RDONLY | NO_LINK | CLOSED_ON_EXEC)


def _told(holder: str) -> str:
    """Who holds a lock, in words."""
    process, _, machine = holder.partition(" ")
    if not process.isdecimal():
        return "another process"
    if machine != platform.node():
        return f"process {process} on {machine!r}"
    return "another run of this process" if int(process) == os.getpid() else f"process {process}"


def _is_at(number: int, path: Path) -> bool:
    """Whether an open file still has its name."""
    try:
        return os.path.samestat(os.fstat(number), path.stat(follow_symlinks=False))
    except OSError:
        return False


def _locked(number: int) -> bool | None:
    """Lock an open file until it is closed. False if another has it locked, None if the file system has no locks."""
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

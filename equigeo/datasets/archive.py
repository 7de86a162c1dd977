"""Safe unpacking of untrusted archives."""

from __future__ import annotations

import errno
import gzip
import hashlib
import lzma
import os
import platform
import secrets
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Generator
from contextlib import closing
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, cast

from equigeo.datasets.cache import cache_folder

_LARGEST_READ = 16 << 20
ARCHIVE_SUFFIXES = (".tar.gz", ".tgz", ".tar.xz", ".zip")
MAX_MEMBERS = 200_000
MAX_BYTES = 4 << 30
_SHOWN = 200  # characters of what was wrong
_Opener = Callable[[], IO[bytes]]
_Members = Generator[tuple[str, int, "_Opener | None"], None, None]
_DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    lzma.LZMAError,
    zlib.error,
    EOFError,
    OSError,  # no space, a name that the file system rejects
    NotImplementedError,  # a compression method that zipfile does not know
    RuntimeError,  # an encrypted zip member
    UnicodeError,
    ValueError,
)
FULL = {errno.ENOSPC, errno.EDQUOT}


class BoundedStream:
    """View of a stream that raises past a number of bytes or for a single huge read."""

    def __init__(
        self,
        stream: IO[bytes],
        limit: int,  # largest position in bytes
    ) -> None:
        # Members are copied in small blocks; only the header data of an archive are read in one
        # piece, which must fit in memory.
        self._stream, self._limit = stream, limit
        self.tell = stream.tell

    def read(self, size: int) -> bytes:
        """Read at most ``size`` bytes."""
        if size > _LARGEST_READ:
            raise ValueError(f"it wants {size} bytes in one piece")
        data = self._stream.read(size)
        self._check(self.tell())
        return data

    def seek(self, position: int) -> int:
        """Seek from the start."""
        self._check(position)
        return self._stream.seek(position)

    def _check(self, position: int) -> None:
        if position > self._limit:
            raise ValueError(f"it unpacks to more than {self._limit} bytes")


def unpack_archive(path: Path) -> Path:
    """Unpack an archive into the cache, once per content, and return the folder."""
    store = cache_folder() / "archives"
    target = store / sha256_of(path)
    if target.is_dir():
        return target
    try:
        store.mkdir(parents=True, exist_ok=True)
        unfinished = store / f".partial-{secrets.token_hex(8)}"
        unfinished.mkdir()
    except OSError as error:
        raise _unwritable(path, store, error) from error
    try:
        # Regular files and folders only, at most 200 000 members and 4 GiB; renamed when complete,
        # so concurrent readers and writers are safe.
        _unpack(path, unfinished)
        try:
            os.rename(unfinished, target)
        except OSError:
            if not target.is_dir():  # else another process was faster, with the same content
                raise
    except _DAMAGE as error:
        if isinstance(error, OSError) and error.errno in FULL:
            raise _unwritable(path, store, error) from error
        # Names of members stand in messages, and a damaged one may be of any length.
        text = " ".join(str(error).split())[:_SHOWN]
        raise ValueError(f"{path}: cannot unpack this archive: {text}") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return target


def _unwritable(path: Path, store: Path, error: OSError) -> ValueError:
    return ValueError(
        f"{path}: cannot unpack into the cache {store} ({error.strerror}); "
        "set EQUIGEO_CACHE to a writable folder, or unpack it yourself and give the folder"
    )


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _unpack(path: Path, folder: Path) -> None:
    members = _zip_members if path.name.lower().endswith(".zip") else _tar_members
    number = total = 0
    with closing(members(path, folder)) as found:
        for name, size, opener in found:
            number, total = number + 1, total + size
            if number > MAX_MEMBERS:
                raise ValueError(f"it has more than {MAX_MEMBERS} members")
            if total > MAX_BYTES:
                raise ValueError(f"it unpacks to more than {MAX_BYTES} bytes")
            _write(folder, name, opener)


def _write(folder: Path, name: str, opener: _Opener | None) -> None:
    """Write one member; a member that cannot be opened is a folder."""
    target = folder.joinpath(*_safe_parts(name))
    if opener is None:
        target.mkdir(parents=True, exist_ok=True)
        return
    if target.exists():
        raise ValueError(f"member {name!r} occurs twice")
    target.parent.mkdir(parents=True, exist_ok=True)
    with opener() as source, target.open("xb") as file:
        shutil.copyfileobj(source, file)


def _safe_parts(name: str) -> tuple[str, ...]:
    """Split a member's name into path components that stay below the folder."""
    parts = PurePosixPath(name).parts
    if not name:
        raise ValueError("a member has no name")
    if name.startswith("/") or ".." in parts or any(c in name for c in "\\\0"):
        raise ValueError(f"member {name!r} does not stay inside the archive's folder")
    return parts


def _tar_members(path: Path, folder: Path) -> _Members:
    data_filter = getattr(tarfile, "data_filter", None)
    if data_filter is None:  # not in every patch release of 3.10 and 3.11
        raise ValueError(
            f"Python {platform.python_version()} cannot unpack it safely; upgrade to 3.10.12, "
            "3.11.4 or later, or unpack it yourself and give the folder"
        )
    open_stream = lzma.open if path.name.lower().endswith(".xz") else gzip.open
    # headers and padding count as well; they are small beside the members
    with open_stream(path, "rb") as stream:
        bounded = BoundedStream(cast("IO[bytes]", stream), MAX_BYTES + (MAX_BYTES >> 2))
        with tarfile.open(fileobj=cast("IO[bytes]", bounded), mode="r:") as archive:
            for member in archive:
                if not (member.isreg() or member.isdir()):
                    raise ValueError(f"member {member.name!r} is neither a file nor a folder")
                _safe_parts(member.name)
                member = data_filter(member, str(folder))
                opener = None if member.isdir() else partial(archive.extractfile, member)
                yield member.name, member.size, cast("_Opener | None", opener)


def _zip_members(path: Path, folder: Path) -> _Members:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            kind = stat.S_IFMT(member.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise ValueError(f"member {member.filename!r} is neither a file nor a folder")
            _safe_parts(member.filename)
            opener = None if member.is_dir() else partial(archive.open, member)
            yield member.filename, member.file_size, opener

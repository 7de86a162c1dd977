"""Atomic download of a file with checksum."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import http.client
import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Final

from equigeo.datasets.registry.addresses import is_allowed
from equigeo.datasets.registry.data_set import DataFile

MAX_BYTES: Final = 8 << 30
"""Of a file whose size is not known beforehand."""

TRIES: Final = 3
SECONDS: Final = 30.0  # without a byte

_BLOCK = 1 << 18
_FULL = {errno.ENOSPC, errno.EDQUOT}

Progress = Callable[[int, "int | None"], None]


class DownloadError(ValueError):
    """Failed download; the message names the cause and the remedy."""


class _Interrupted(Exception):
    """Interrupted connection; the partial file is kept."""


def download(
    file: DataFile,
    target: Path,
    progress: Progress | None = None,  # called with (bytes done, total or None)
) -> str:
    """Download a file by https, resume a partial one, and return its SHA-256."""
    _check_url(file.url)
    partial = target.with_name(f"{target.name}.partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _transfer(file, partial, progress or (lambda done, total: None))
        digest = sha256_of(partial)
        _check_digest(file, digest, partial)
        # Renamed only after size and checksum are validated.
        os.replace(partial, target)
    except OSError as error:
        if error.errno in _FULL:
            raise DownloadError(
                f"{target}: the disk is full; make space, or set EQUIGEO_DATA to another folder, "
                "and fetch again: what has come is kept"
            ) from error
        raise
    _state(partial).unlink(missing_ok=True)
    return digest


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _check_url(url: str) -> None:
    if not is_allowed(url):
        raise DownloadError(f"{url}: only addresses of https are fetched")


class _SameScheme(urllib.request.HTTPRedirectHandler):
    """Redirect handler that rejects other schemes."""

    def redirect_request(
        self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: Any
    ) -> Any:
        _check_url(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _transfer(file: DataFile, partial: Path, progress: Progress) -> None:
    for left in reversed(range(TRIES)):
        before = partial.stat().st_size if partial.exists() else 0
        if file.bytes is not None and before == file.bytes:
            return
        try:
            return _attempt(file, partial, progress)
        except (_Interrupted, TimeoutError, ConnectionError, http.client.HTTPException) as error:
            if not left:
                there = partial.stat().st_size if partial.exists() else 0
                raise DownloadError(
                    f"{file.url}: the transfer broke off after {there} bytes, {TRIES} times "
                    f"({error or type(error).__name__}); fetch again to go on from there"
                ) from error
        except urllib.error.HTTPError as error:
            raise DownloadError(
                f"{file.url}: the server says {error.code} {error.reason}"
            ) from error
        except urllib.error.URLError as error:
            raise DownloadError(f"{file.url}: cannot be reached ({error.reason})") from error


def _attempt(file: DataFile, partial: Path, progress: Progress) -> None:
    """Request the file, or its missing part, and append the response."""
    there, condition = _resumable(file, partial)
    request = urllib.request.Request(file.url, headers={"User-Agent": "equigeo"})
    if there:
        request.add_header("Range", f"bytes={there}-")
        if condition:
            request.add_header("If-Range", condition)
    opener = urllib.request.build_opener(_SameScheme)
    try:
        response = opener.open(request, timeout=SECONDS)
    except urllib.error.HTTPError as error:
        if error.code != http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        partial.unlink(missing_ok=True)  # what is there belongs to something else
        raise _Interrupted("the server has no such part") from error
    with contextlib.closing(response):
        goes_on = there and response.status == http.client.PARTIAL_CONTENT
        start = there if goes_on and _first_byte(response) == there else 0
        if goes_on and not start:
            partial.unlink(missing_ok=True)
            raise _Interrupted("the server sent another part")
        total = _announced(file, response, start)
        _state(partial).write_text(json.dumps({"etag": response.headers.get("ETag", "")}))
        with partial.open("ab" if start else "wb") as sink:
            _copy(file, response, sink, start, total, progress)


def _resumable(file: DataFile, partial: Path) -> tuple[int, str]:
    """Return the bytes to resume from and the condition: without a checksum, only the same file."""
    if not partial.exists():
        return 0, ""
    try:
        etag = str(json.loads(_state(partial).read_text())["etag"])
    except (OSError, ValueError, KeyError, TypeError):
        etag = ""
    there = partial.stat().st_size
    is_certain = file.sha256 is not None or (etag and not etag.startswith("W/"))
    return (there, etag if not etag.startswith("W/") else "") if is_certain else (0, "")


def _state(partial: Path) -> Path:
    return partial.with_name(f"{partial.name}.json")


def _first_byte(response: Any) -> int:
    """Return the first byte of the part that a server sends."""
    text = response.headers.get("Content-Range", "").removeprefix("bytes ").partition("-")[0]
    return int(text) if text.isdigit() else -1


def _announced(file: DataFile, response: Any, start: int) -> int | None:
    """Return the size that the server announces; raise before the transfer if it is wrong."""
    text = response.headers.get("Content-Length", "")
    total = start + int(text) if text.isdigit() else None
    if total is not None and file.bytes is not None and total != file.bytes:
        raise DownloadError(
            f"{file.url}: has {total} bytes, expected {file.bytes}; it is not the known file"
        )
    _check_size(file, total or 0)
    return total if total is not None else file.bytes


def _check_size(file: DataFile, size: int) -> None:
    most = MAX_BYTES if file.bytes is None else file.bytes
    if size > most:
        raise DownloadError(f"{file.url}: is larger than {most} bytes, which is not accepted")


def _copy(
    file: DataFile,
    response: Any,
    sink: IO[bytes],
    start: int,
    total: int | None,
    progress: Progress,
) -> None:
    done = start
    progress(done, total)
    while block := response.read(_BLOCK):
        done += len(block)
        _check_size(file, done)
        sink.write(block)
        progress(done, total)
    sink.flush()
    os.fsync(sink.fileno())
    if total is not None and done < total:
        raise _Interrupted(f"{done} of {total} bytes came")


def _check_digest(file: DataFile, digest: str, partial: Path) -> None:
    if file.sha256 is not None and digest != file.sha256:
        partial.unlink()
        _state(partial).unlink(missing_ok=True)
        raise DownloadError(
            f"{file.url}: has the SHA-256 {digest}, expected {file.sha256}; nothing is kept of it"
        )

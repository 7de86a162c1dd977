"""Atomic download of a file, and records of checksums."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import secrets
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Final

from equigeo._core.files import replace_file
from equigeo.datasets.archive import FULL
from equigeo.datasets.registry.catalogue import DataFile, is_allowed

MAX_BYTES: Final = 8 << 30
"""Limit for files of unknown size."""
TRIES: Final = 3
SECONDS: Final = 30.0  # without a byte
_BLOCK = 1 << 18
Progress = Callable[[int, "int | None"], None]
RECORD: Final = "checksums.json"


class DownloadError(ValueError):
    """Failed download; the message names the cause and the remedy."""


def download(
    file: DataFile,
    target: Path,
    progress: Progress | None = None,  # called with (bytes done, total or None)
) -> str:
    """Download a file by https and return its SHA-256; leave nothing behind on failure."""
    _check_url(file.url)
    partial = target.with_name(f".{target.name}.{secrets.token_hex(8)}.partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        digest = _transfer(file, partial, progress or (lambda done, total: None))
        if file.sha256 not in (None, digest):
            raise DownloadError(
                f"{file.url}: has the SHA-256 {digest}, expected {file.sha256}; nothing is kept"
            )
        # Renamed only after size and checksum are validated.
        os.replace(partial, target)
    except OSError as error:
        if error.errno in FULL:
            raise DownloadError(
                f"{target}: the disk is full; make space, or set EQUIGEO_DATA to another folder, "
                "and fetch again"
            ) from error
        raise
    finally:
        partial.unlink(missing_ok=True)
    return digest


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


def _transfer(file: DataFile, partial: Path, progress: Progress) -> str:
    """Fetch the file, again if the connection breaks, and return its SHA-256."""
    request = urllib.request.Request(file.url, headers={"User-Agent": "equigeo"})
    opener = urllib.request.build_opener(_SameScheme)
    for left in reversed(range(TRIES)):
        try:
            with opener.open(request, timeout=SECONDS) as response, partial.open("wb") as sink:
                return _copy(file, response, sink, progress)
        except (TimeoutError, ConnectionError, http.client.HTTPException) as error:
            if not left:
                raise DownloadError(
                    f"{file.url}: the transfer broke off {TRIES} times "
                    f"({error or type(error).__name__}); fetch again later"
                ) from error
        except urllib.error.HTTPError as error:
            raise DownloadError(
                f"{file.url}: the server returned {error.code} {error.reason}"
            ) from error
        except urllib.error.URLError as error:
            raise DownloadError(f"{file.url}: cannot be reached ({error.reason})") from error
    raise AssertionError("unreachable: the last attempt returns or raises")


def _copy(file: DataFile, response: Any, sink: IO[bytes], progress: Progress) -> str:
    """Copy a response within the known size and return its SHA-256."""
    text = response.headers.get("Content-Length", "")
    total = int(text) if text.isdigit() else file.bytes
    if total is not None and file.bytes is not None and total != file.bytes:
        raise DownloadError(
            f"{file.url}: has {total} bytes, expected {file.bytes}; it is not the known file"
        )
    most = MAX_BYTES if file.bytes is None else file.bytes
    digest, done = hashlib.sha256(), 0
    progress(done, total)
    while block := response.read(_BLOCK):
        done += len(block)
        if max(done, total or 0) > most:
            raise DownloadError(f"{file.url}: is larger than {most} bytes, which is not accepted")
        digest.update(block)
        sink.write(block)
        progress(done, total)
    sink.flush()
    os.fsync(sink.fileno())
    if total is not None and done < total:
        raise ConnectionError(f"{done} of {total} bytes came")
    return digest.hexdigest()


def read_checksums(folder: Path) -> dict[str, str]:
    """Return the recorded SHA-256 by file name; empty without a record."""
    path = folder / RECORD
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: cannot be read ({error}); remove it to record anew") from error
    if not isinstance(found, dict) or not all(isinstance(x, str) for x in found.values()):
        raise ValueError(f"{path}: expected checksums by name; remove it to record anew")
    return found


def record_checksums(folder: Path, digests: dict[str, str]) -> None:
    """Add checksums to the record of a folder atomically."""
    text = json.dumps(read_checksums(folder) | digests, indent=1, sort_keys=True) + "\n"
    replace_file(folder / RECORD, text)

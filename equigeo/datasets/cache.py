"""Cache folder, and arrays in ``.npz`` files."""

from __future__ import annotations

import logging
import os
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from equigeo._core.files import replace_file

MAX_BYTES: Final = 1 << 30
_KINDS: Final = {"text": "U", "integer": "ui", "floating": "f"}
Arrays = dict[str, NDArray[np.generic]]
_T = TypeVar("_T")
_log = logging.getLogger(__name__)
DAMAGE: Final = (ValueError, EOFError, OSError, LookupError, zlib.error, zipfile.BadZipFile)


def cache_folder() -> Path:
    """Return ``$EQUIGEO_CACHE``, or the user's cache folder, without creating it."""
    chosen = os.environ.get("EQUIGEO_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    try:
        import platformdirs
    except ImportError as error:
        raise ImportError(
            "the cache folder needs platformdirs: pip install platformdirs, or set EQUIGEO_CACHE"
        ) from error
    return platformdirs.user_cache_path("equigeo")


def check_unpacked_size(path: Path) -> None:
    """Raise if an archive is too large; its directory has the sizes before decompression."""
    with zipfile.ZipFile(path) as archive:
        size = sum(member.file_size for member in archive.infolist())
    if size > MAX_BYTES:
        raise ValueError(f"it unpacks to {size} bytes, more than {MAX_BYTES}")


def read_arrays(
    path: Path,
    kinds: Mapping[str, str],  # per array, "text", "integer", "floating" or the name of a dtype
    what: str,  # content in messages
) -> dict[str, NDArray[np.generic]]:
    """Read arrays of an ``.npz`` file without unpickling; raise if one is missing."""
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    try:
        check_unpacked_size(path)
        with np.load(path, allow_pickle=False) as file:
            missing = kinds.keys() - set(file.files)
            if missing:
                raise ValueError(f"it has no array {', '.join(sorted(missing))}")
            arrays = {name: file[name] for name in kinds}
    except DAMAGE as error:
        raise ValueError(f"{path}: cannot be read as {what}: {error}") from error
    for name, kind in kinds.items():
        dtype = arrays[name].dtype
        if dtype.kind not in _KINDS[kind] if kind in _KINDS else dtype != kind:
            raise ValueError(f"{path}: {name} must be {kind}, got {dtype}")
    return arrays


def save_arrays(path: Path, arrays: Mapping[str, NDArray[np.generic]]) -> None:
    """Write an ``.npz`` file atomically; missing folders are created."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]


def cached_arrays(
    name: str,
    cache: Path | None,  # default: `cache_folder()`; failed writes are logged
    generate: Callable[[], Arrays],
    use: Callable[[Arrays], _T],  # raises if the arrays are damaged
) -> _T:
    """Load arrays from the cache, or generate and store them, and return ``use(arrays)``."""
    path = (cache_folder() if cache is None else cache) / name
    try:
        # opened here: numpy leaves a damaged file open
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            return use({key: stored[key] for key in stored.files})
    except FileNotFoundError:
        pass
    except (*DAMAGE, AttributeError, TypeError) as error:
        _log.warning("generating data again, %s is damaged: %s", path, error)
    arrays = generate()
    result = use(arrays)
    try:
        save_arrays(path, arrays)
    except OSError as error:
        _log.warning("cannot cache generated data in %s: %s", path, error)
    return result

"""Reader for label files: one number per line, or a NumPy array."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

# A file of labels is small: this is a label of 16 bytes for each of 64 million faces.
_MAX_BYTES = 1 << 30
_MAX_LABEL = 1000  # far above any set of parts: a file with more holds something else

_DAMAGE = (ValueError, TypeError, OSError, EOFError, SyntaxError, MemoryError, OverflowError)


def read_labels(
    path: Path,  # `.npy` or text; floats such as 3.000e+00 are accepted
) -> NDArray[np.int64]:
    """Read one integer label from 0 to 1000 per face or edge, (lines,)."""
    values = _read_array(path) if path.suffix.lower() == ".npy" else _read_table(path)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if not values.size:
        raise ValueError("is empty; it must hold one label a line")
    if values.ndim != 1:
        raise ValueError(f"must hold one label a line, got numbers of shape {values.shape}")
    bad = ~(np.isfinite(values) & (values >= 0) & (values <= _MAX_LABEL))
    bad |= np.where(bad, 0, values) % 1 != 0
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(
            f"line {row + 1}: a label must be an integer from 0 to {_MAX_LABEL}, got {values[row]}"
        )
    return values.astype(np.int64)


def read_soft_labels(path: Path) -> NDArray[np.float64]:
    """Read the class shares of each edge from text, (lines, columns)."""
    values = _read_table(path)
    if not len(values):
        raise ValueError("is empty; it must hold the shares of all classes, one edge a line")
    bad = ~(np.isfinite(values) & (values >= 0))
    if bad.any():
        row, column = (int(k) for k in np.argwhere(bad)[0])
        raise ValueError(f"line {row + 1}: must hold shares, got {values[row, column]}")
    return values


def _read_bytes(path: Path) -> bytes:
    try:
        if not path.is_file():
            raise ValueError("is not a regular file")
        size = path.stat().st_size
        if size > _MAX_BYTES:
            raise ValueError(f"has {size} bytes, more than {_MAX_BYTES}")
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"cannot be read ({error.strerror})") from error


def _read_array(path: Path) -> NDArray[np.float64]:
    """Read an array of integers, or of floats with integer values."""
    if not _read_bytes(path):
        raise ValueError("is empty; it must hold one label for each face")
    try:
        with path.open("rb") as file:
            values = np.load(file, allow_pickle=False)
    except _DAMAGE as error:
        raise ValueError("is no array of NumPy without objects; save it by numpy.save") from error
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "iuf":
        kind = values.dtype if isinstance(values, np.ndarray) else "several arrays"
        raise ValueError(f"must hold one array of integers, got {kind}")
    return values.astype(np.float64)


def _read_table(path: Path) -> NDArray[np.float64]:
    """Read a table of numbers, (lines, columns)."""
    try:
        text = _read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError("is no text; it must hold numbers") from error
    lines = text.rstrip().splitlines()
    sizes = np.fromiter(map(len, map(str.split, lines)), np.int64, len(lines))
    if (sizes != sizes[:1]).any():
        line = int((sizes != sizes[0]).argmax())
        raise ValueError(f"line {line + 1} has {sizes[line]} numbers, the first has {sizes[0]}")
    words = text.split()
    try:
        return np.array(words, dtype=np.float64).reshape(len(lines), -1 if words else 0)
    except ValueError:
        word = next(k for k, word in enumerate(words) if not _is_number(word))
        line = word // int(sizes[0]) + 1
        raise ValueError(f"line {line}: must hold numbers, got {words[word][:20]!r}") from None


def _is_number(word: str) -> bool:
    try:
        np.float64(word)
    except ValueError:
        return False
    return True

"""Vertices and vertex indices from the words of a text, with errors for malformed words."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equigeo.mesh.errors import MeshError
from equigeo.mesh.geometry.concatenate_ranges import concatenate_ranges
from equigeo.mesh.io.file_attributes import scale_colors
from equigeo.mesh.io.token_table import TokenTable

_SHOWN = 80  # bytes of a line or a word that a message repeats


def read_rows(
    table: TokenTable,
    first: NDArray[np.int64],  # (rows,) first word of each row
    counts: NDArray[np.int64],  # (rows,) words per row, at most `width`
    width: int,
) -> NDArray[np.float64]:
    """Read rows of numbers (rows, width); NaN for missing or malformed words."""
    rows = np.full((len(first), width), np.nan)
    words = concatenate_ranges(first, counts)
    rows[np.arange(width) < counts[:, None]] = table.numbers(words, float)
    return rows


def read_values(
    table: TokenTable,
    first: NDArray[np.int64],  # (rows,) first word of each row
    counts: NDArray[np.int64],  # (rows,) words per row
    name: str,  # of the values, for the warning
    warnings: list[str],
) -> NDArray[np.float64]:
    """Read rows of numbers, NaN where missing, with a warning for words that are not numbers."""
    values = read_rows(table, first, counts, int(counts.max(initial=0)))
    wanted = np.arange(values.shape[1]) < counts[:, None]
    bad = int((np.isnan(values) & wanted).any(axis=1).sum())
    if bad:
        warnings.append(f"{bad} times the {name} is no number: NaN there")
    return values


def read_colors(
    table: TokenTable,
    first: NDArray[np.int64],  # (rows,) first word of each row
    counts: NDArray[np.int64],  # (rows,) 0, 3 or 4 words per row
    owners: str,  # for the warning
    warnings: list[str],
) -> NDArray[np.float64] | None:
    """Read colors (rows, 3 or 4) in [0, 1]; None, with a warning, if any is out of range."""
    scaled = scale_colors(read_values(table, first, counts, "color", warnings))
    if scaled is None:
        warnings.append(f"colors of {owners} are neither from 0 to 1 nor from 0 to 255; left out")
        return None
    scaled[counts == 3, 3:] = 1.0  # opaque, where others have an opacity
    return scaled


def read_indices(
    table: TokenTable,
    words: NDArray[np.int64],  # (n,) ascending
    stop: NDArray[np.int64] | None = None,  # (n,) ends of the words, if cut
    *,
    start: NDArray[np.int64] | None = None,  # (n,) starts of the words, if cut
    what: str = "vertex number",  # description for the message
) -> NDArray[np.int64]:
    """Read integers (n,) as written in the file; raise ``MeshError`` for malformed words."""
    indices: NDArray[np.int64] = table.numbers(words, int, stop, start)
    bad = indices == np.iinfo(np.int64).min  # marks malformed words
    if bad.any():
        word = words[bad.argmax()]
        text = table.data[table.start[word] : table.stop[word]].tobytes()
        raise MeshError(
            f"line {table.line_number(word)}: expected a {what}, "
            f"got {text[:_SHOWN].decode(errors='replace')!r}; export the mesh again"
        )
    return indices


def warn_of_nonfinite(
    table: TokenTable,
    vertices: NDArray[np.float64],  # (vertices, 3)
    first: NDArray[np.int64],  # (vertices,) first word of each line
) -> tuple[str, ...]:
    """Return a warning about vertices that are not three finite numbers, or an empty tuple."""
    bad = np.flatnonzero(~np.isfinite(vertices).all(axis=1))
    if not len(bad):
        return ()
    word = first[bad[0]]
    line = int(np.searchsorted(table.line_ptr, word, side="right")) - 1
    text = b" ".join(table.line_words(line))[:_SHOWN].decode(errors="replace")
    what = "1 vertex is" if len(bad) == 1 else f"{len(bad)} vertices are"
    return (f"{what} not three finite numbers, first in line {table.line_number(word)}: {text!r}",)

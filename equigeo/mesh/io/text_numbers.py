"""Vertices and vertex indices from the words of a text, and what to say where they are none."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equigeo.mesh.errors import MeshError
from equigeo.mesh.geometry.concatenate_ranges import concatenate_ranges
from equigeo.mesh.io.token_table import TokenTable

_SHOWN = 80  # bytes of a line or a word that a message repeats


def read_rows(
    table: TokenTable, first: NDArray[np.int64], counts: NDArray[np.int64], width: int
) -> NDArray[np.float64]:
    r"""Read rows of numbers; NaN where a row is too short or a word is no number.

    Parameters
    ----------
    table : TokenTable
        The text.
    first : ndarray, (rows,), int64
        First word of each row.
    counts : ndarray, (rows,), int64
        How many words it has, at most ``width``.
    width : int
        Length of a row.

    Returns
    -------
    ndarray, (rows, width), float64
        The numbers.

    Examples
    --------
    >>> table = TokenTable(b"1 2\n3")
    >>> read_rows(table, np.array([0, 2]), np.array([2, 1]), 2)
    array([[ 1.,  2.],
           [ 3., nan]])
    """
    rows = np.full((len(first), width), np.nan)
    words = concatenate_ranges(first, counts)
    rows[np.arange(width) < counts[:, None]] = table.numbers(words, float)
    return rows


def read_indices(
    table: TokenTable,
    words: NDArray[np.int64],
    stop: NDArray[np.int64] | None = None,
    *,
    start: NDArray[np.int64] | None = None,
    what: str = "vertex number",
) -> NDArray[np.int64]:
    """Read numbers of vertices, or of what else a file counts.

    Parameters
    ----------
    table : TokenTable
        The text.
    words : ndarray, (n,), int64
        Increasing indices of words.
    stop, start : ndarray, (n,), int64, optional
        Earlier ends and later beginnings of the words.
    what : str, keyword-only
        What the numbers are, for the message.

    Returns
    -------
    ndarray, (n,), int64
        As the file counts them.

    Raises
    ------
    MeshError
        If a word is no integer; the message shows its line.

    Examples
    --------
    >>> read_indices(TokenTable(b"3 0 1 2"), np.array([1, 2, 3]))
    array([0, 1, 2])
    """
    indices: NDArray[np.int64] = table.numbers(words, int, stop, start)
    bad = indices == np.iinfo(np.int64).min  # what stands for no number
    if bad.any():
        word = words[bad.argmax()]
        text = table.data[table.start[word] : table.stop[word]].tobytes()
        raise MeshError(
            f"line {table.line_number(word)}: expected a {what}, "
            f"got {text[:_SHOWN].decode(errors='replace')!r}; export the mesh again"
        )
    return indices


def warn_of_nonfinite(
    table: TokenTable, vertices: NDArray[np.float64], first: NDArray[np.int64]
) -> tuple[str, ...]:
    r"""Tell where vertices are not three finite numbers.

    Parameters
    ----------
    table : TokenTable
        The text.
    vertices : ndarray, (vertices, 3), float64
        What was read of it.
    first : ndarray, (vertices,), int64
        First word of the line of each vertex.

    Returns
    -------
    tuple of str
        Nothing, or one warning that shows the first such line.

    Examples
    --------
    >>> table = TokenTable(b"v 0 0 0\nv 1 0 O")
    >>> warn_of_nonfinite(table, np.array([[0, 0, 0], [1, 0, np.nan]]), np.array([0, 4]))
    ("1 vertex is not three finite numbers, first in line 2: 'v 1 0 O'",)
    """
    bad = np.flatnonzero(~np.isfinite(vertices).all(axis=1))
    if not len(bad):
        return ()
    word = first[bad[0]]
    line = int(np.searchsorted(table.line_ptr, word, side="right")) - 1
    text = b" ".join(table.line_words(line))[:_SHOWN].decode(errors="replace")
    what = "1 vertex is" if len(bad) == 1 else f"{len(bad)} vertices are"
    return (f"{what} not three finite numbers, first in line {table.line_number(word)}: {text!r}",)

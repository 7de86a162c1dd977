"""The warning about vertices that are not three numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equigeo.mesh.io.token_table import TokenTable


def unreadable_numbers(
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
    >>> unreadable_numbers(table, np.array([[0, 0, 0], [1, 0, np.nan]]), np.array([0, 4]))
    ("1 vertex is not three finite numbers, first in line 2: 'v 1 0 O'",)
    """
    bad = np.flatnonzero(~np.isfinite(vertices).all(axis=1))
    if not len(bad):
        return ()
    word = first[bad[0]]
    line = int(np.searchsorted(table.line_ptr, word, side="right")) - 1
    text = b" ".join(table.line_words(line))[:80].decode(errors="replace")
    what = "1 vertex is" if len(bad) == 1 else f"{len(bad)} vertices are"
    return (f"{what} not three finite numbers, first in line {table.line_number(word)}: {text!r}",)

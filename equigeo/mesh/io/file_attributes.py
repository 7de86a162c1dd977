"""What a file says of its vertices, faces and corners besides where they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

_Values = Mapping[str, NDArray[Any]]

_BYTE, _WORD = 255.0, 65535.0  # full colors in integers of 8 and 16 bits
_ROUNDING = 1e-6  # by how much a color may exceed 1: text has six digits


@dataclass(frozen=True, eq=False, repr=False)
class FileAttributes:
    """Values per vertex, per face and per corner, under names that are the same in every format.

    ``color`` has three or four columns from 0 to 1, ``normal`` three and ``uv`` two, all of
    float64; other names are those of the file, with one number each. What the file leaves out, or
    what is no number, is NaN.

    Parameters
    ----------
    vertices : mapping of str to ndarray, (vertices, ...)
        Values per vertex.
    faces : mapping of str to ndarray, (faces, ...)
        Values per face.
    corners : mapping of str to ndarray, (corners, ...)
        Values per corner, in the order of the faces.
    warnings : tuple of str
        What of them was malformed, or not read.

    Examples
    --------
    >>> attributes = FileAttributes(faces={"label": np.array([3, 4])})
    >>> bool(attributes), bool(FileAttributes())
    (True, False)
    """

    vertices: _Values = field(default_factory=dict)
    faces: _Values = field(default_factory=dict)
    corners: _Values = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.vertices or self.faces or self.corners)

    def __repr__(self) -> str:
        """Give names, not values."""
        parts = [f"{k}={list(v)}" for k in ("vertices", "faces", "corners") if (v := vars(self)[k])]
        return f"FileAttributes({', '.join(parts)})"


def scale_colors(values: NDArray[Any]) -> NDArray[np.float64] | None:
    """Bring colors to numbers from 0 to 1.

    Integers of 16 bits count to 65,535, others to 255. Fractions are meant from 0 to 1, but for
    whole numbers above 1, which count to 255: text does not tell the two apart.

    Parameters
    ----------
    values : ndarray, (n, channels)
        As in the file; NaN where it has none.

    Returns
    -------
    ndarray, (n, channels), float64, or None
        None where a color is out of range.

    Examples
    --------
    >>> scale_colors(np.array([[0, 51, 255]], np.uint8))
    array([[0. , 0.2, 1. ]])
    >>> scale_colors(np.array([[0.0, 0.2, 1.0]]))
    array([[0. , 0.2, 1. ]])
    >>> scale_colors(np.array([[0.0, 0.2, 300.0]])) is None
    True
    """
    full = 1.0
    known = ~np.isnan(values) if values.dtype.kind == "f" else np.ones(values.shape, bool)
    given = values[known]
    if values.dtype.kind in "iu":
        full = _WORD if values.dtype.itemsize == 2 else _BYTE
    elif given.max(initial=0) > 1 + _ROUNDING and (given == np.round(given)).all():
        full = _BYTE
    with np.errstate(all="ignore"):  # infinite ones are out of range
        if given.min(initial=0) < 0 or given.max(initial=0) / full > 1 + _ROUNDING:
            return None
        scaled: NDArray[np.float64] = np.minimum(values.astype(np.float64) / full, 1.0)
    return scaled


def differing_attributes(
    attributes: _Values, own: NDArray[np.int64], shared: NDArray[np.int64]
) -> dict[str, NDArray[Any]]:
    """Give values per corner where vertices that became one had different values.

    Parameters
    ----------
    attributes : mapping of str to ndarray, (vertices, ...)
        Values per vertex.
    own, shared : ndarray, (...), int64
        The vertex of each corner, and the one that stands for it now.

    Returns
    -------
    dict of str to ndarray, (..., ...)
        For each attribute that differs at any corner, the values of all corners' own vertices.

    Examples
    --------
    >>> values = {"u": np.array([0.0, 1.0, 2.0]), "v": np.array([5.0, 6.0, 6.0])}
    >>> differing_attributes(values, np.array([0, 1, 2]), np.array([0, 1, 1]))
    {'u': array([0., 1., 2.])}
    """
    moved = own != shared
    one, other = own[moved], shared[moved]
    found = {}
    for name, values in attributes.items():
        a, b = values[one], values[other]
        if ((a != b) & ((a == a) | (b == b))).any():  # NaN equals NaN here
            found[name] = values[own]
    return found


def join_attributes(
    parts: Sequence[Mapping[str, NDArray[np.float64]]], sizes: Sequence[int]
) -> tuple[dict[str, NDArray[np.float64]], tuple[str, ...]]:
    """Join the attributes of parts, of which not all need to have each.

    Parameters
    ----------
    parts : sequence of mapping of str to ndarray, (vertices of the part, ...)
        Values of each part; of colors, some may have a fourth column.
    sizes : sequence of int
        Vertices of each part.

    Returns
    -------
    joined : dict of str to ndarray, (all vertices, ...)
        NaN where a part has none; 1 where a part alone lacks the fourth column.
    warnings : tuple of str
        Which attributes are missing somewhere.

    Examples
    --------
    >>> join_attributes([{"size": np.ones((1, 1))}, {}], [1, 2])[0]["size"].tolist()
    [[1.0], [nan], [nan]]
    """
    names = dict.fromkeys(name for part in parts for name in part)
    joined, warnings = {}, []
    ends = np.cumsum(sizes)
    for name in names:
        width = max(part[name].shape[1] for part in parts if name in part)
        values = np.full((int(ends[-1]), width), np.nan)
        missing = 0
        for part, size, end in zip(parts, sizes, ends, strict=True):
            if name in part:
                values[end - size : end] = 1.0
                values[end - size : end, : part[name].shape[1]] = part[name]
            else:
                missing += size
        if missing:
            warnings.append(f"{missing} of {ends[-1]} vertices have no {name}: NaN there")
        joined[name] = values
    return joined, tuple(warnings)

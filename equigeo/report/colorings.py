"""What the faces of a shape can be coloured by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from equigeo.report.palette import distinct_color, hexadecimal

PLAIN: Final = "#9db8d4"
_ALONE, _RIGHT, _WRONG = "#e3e3e3", "#d5dee6", "#b3261e"
_VIVID = 0.6  # saturation of parts, which are few


def part_color(part: int) -> tuple[int, int, int]:
    """Colour of a part, the same in pages and in files; a part below zero is unknown and grey."""
    return distinct_color(part, _VIVID) if part >= 0 else (150, 150, 150)


def colorings(shape: Mapping[str, Any]) -> dict[str, list[str]]:
    """Give the colour of every face, by what is shown.

    Parts come first where the shape has them; then clusters, the coarsest first. Faces that are
    still alone are grey; every larger cluster has a hue of its own.

    Parameters
    ----------
    shape : mapping
        With ``faces`` and ``levels``, for each pooling level the cluster of every face; and where
        a network has told parts, ``predicted_parts`` and, if known, ``labelled_parts``, the number
        of the part of every face, -1 where it is unknown.

    Examples
    --------
    >>> shape = {"faces": [[0, 1, 2], [0, 2, 3], [3, 4, 5]], "levels": [[0, 0, 1]]}
    >>> colorings(shape)
    {'after pooling 1': ['#cc7070', '#cc7070', '#e3e3e3'], \
'before pooling': ['#9db8d4', '#9db8d4', '#9db8d4']}
    >>> list(colorings(shape | {"predicted_parts": [0, 1, 1], "labelled_parts": [0, 0, 1]}))
    ['predicted parts', 'labelled parts', 'errors', 'after pooling 1', 'before pooling']
    """
    found = _parts(shape) if "predicted_parts" in shape else {}
    for number in range(len(shape["levels"]), 0, -1):
        clusters = shape["levels"][number - 1]
        size = Counter(clusters)
        found[f"after pooling {number}"] = [
            _ALONE if size[c] == 1 else hexadecimal(distinct_color(c)) for c in clusters
        ]
    found["before pooling"] = [PLAIN] * len(shape["faces"])
    return found


def _parts(shape: Mapping[str, Any]) -> dict[str, list[str]]:
    seen = shape["predicted_parts"]
    found = {"predicted parts": [hexadecimal(part_color(part)) for part in seen]}
    if "labelled_parts" in shape:
        known = shape["labelled_parts"]
        found["labelled parts"] = [hexadecimal(part_color(part)) for part in known]
        found["errors"] = [
            _ALONE if label < 0 else _RIGHT if part == label else _WRONG
            for part, label in zip(seen, known, strict=True)
        ]
    return found


def count_clusters(shape: Mapping[str, Any]) -> Sequence[int]:
    """Count faces, then the clusters of each pooling level.

    Examples
    --------
    >>> count_clusters({"faces": [[0, 1, 2], [0, 2, 3]], "levels": [[0, 0]]})
    [2, 1]
    """
    return [len(shape["faces"]), *(len(set(level)) for level in shape["levels"])]

"""What the faces of a shape can be coloured by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from equigeo.report.palette import blend, distinct_color, hexadecimal

PLAIN: Final = "#9db8d4"
ALONE, RIGHT, WRONG = "#e3e3e3", "#d5dee6", "#b3261e"
# Attention from half of an even one to one and a half: nine tenths of the faces that networks see.
LEAST, MOST = 0.5, 1.5
SCALE: Final = ((36, 94, 163), (242, 240, 235), (209, 84, 22))  # of LEAST, 1 and MOST
_VIVID = 0.6  # saturation of parts, which are few

Kind = Literal["parts", "errors", "clusters", "attention", "plain"]


class Coloring(NamedTuple):
    """The colour of every face, and of what kind it is, which is what a reader needs a key for."""

    kind: Kind
    colors: list[str]


def part_color(part: int) -> tuple[int, int, int]:
    """Colour of a part, the same in pages and in files; a part below zero is unknown and grey."""
    return distinct_color(part, _VIVID) if part >= 0 else (150, 150, 150)


def colorings(shape: Mapping[str, Any]) -> dict[str, Coloring]:
    """Give the colour of every face, by what is shown.

    Parts come first where the shape has them; then clusters, the coarsest first; then attention,
    that of the last block first. Faces that are still alone are grey; every larger cluster has a
    hue of its own.

    Parameters
    ----------
    shape : mapping
        With ``faces`` and ``levels``, for each pooling level the cluster of every face; where it
        is known, ``attention``, for each block what every face receives of it, 1 where it is even;
        and where a network has told parts, ``predicted_parts`` and, if known, ``labelled_parts``,
        the number of the part of every face, -1 where it is unknown.

    Examples
    --------
    >>> shape = {"faces": [[0, 1, 2], [0, 2, 3], [3, 4, 5]], "levels": [[0, 0, 1]]}
    >>> colorings(shape)["clusters after pooling 1"]
    Coloring(kind='clusters', colors=['#cc7070', '#cc7070', '#e3e3e3'])
    >>> shape |= {"predicted_parts": [0, 1, 1], "labelled_parts": [0, 0, 1]}
    >>> list(colorings(shape | {"attention": [[0.9, 1.2, 1.0]]}))
    ['predicted parts', 'labelled parts', 'errors', 'clusters after pooling 1', \
'attention in block 1', 'none']
    """
    found = _parts(shape) if "predicted_parts" in shape else {}
    for number, clusters in _last_first(shape["levels"]):
        size = Counter(clusters)
        colors = [ALONE if size[c] == 1 else hexadecimal(distinct_color(c)) for c in clusters]
        found[f"clusters after pooling {number}"] = Coloring("clusters", colors)
    for number, attention in _last_first(shape.get("attention", ())):
        colors = [hexadecimal(attention_color(value)) for value in attention]
        found[f"attention in block {number}"] = Coloring("attention", colors)
    found["none"] = Coloring("plain", [PLAIN] * len(shape["faces"]))
    return found


def _last_first(rows: Sequence[Any]) -> list[tuple[int, Any]]:
    return list(enumerate(rows, 1))[::-1]


def attention_color(value: float) -> tuple[int, int, int]:
    """Colour of attention relative to an even one: blue below, nearly white at 1, orange above.

    Examples
    --------
    >>> attention_color(1.0), attention_color(7.0) == attention_color(1.5)
    ((242, 240, 235), True)
    """
    low, even, high = SCALE
    if value < 1:
        return blend(even, low, min((1 - value) / (1 - LEAST), 1.0))
    return blend(even, high, min((value - 1) / (MOST - 1), 1.0))


def _parts(shape: Mapping[str, Any]) -> dict[str, Coloring]:
    seen = shape["predicted_parts"]
    parts = {"predicted parts": seen}
    if "labelled_parts" in shape:
        parts["labelled parts"] = shape["labelled_parts"]
    found = {
        name: Coloring("parts", [hexadecimal(part_color(part)) for part in numbers])
        for name, numbers in parts.items()
    }
    if "labelled_parts" in shape:
        errors = [
            ALONE if label < 0 else RIGHT if part == label else WRONG
            for part, label in zip(seen, shape["labelled_parts"], strict=True)
        ]
        found["errors"] = Coloring("errors", errors)
    return found


def count_clusters(shape: Mapping[str, Any]) -> Sequence[int]:
    """Count faces, then the clusters of each pooling level.

    Examples
    --------
    >>> count_clusters({"faces": [[0, 1, 2], [0, 2, 3]], "levels": [[0, 0]]})
    [2, 1]
    """
    return [len(shape["faces"]), *(len(set(level)) for level in shape["levels"])]

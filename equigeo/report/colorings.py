"""Face colorings of a shape."""

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
    """Color of every face, with the kind of the coloring for the key."""

    kind: Kind
    colors: list[str]


def part_color(part: int) -> tuple[int, int, int]:
    """Return the color of a part in pages and files; negative parts are unknown and grey."""
    return distinct_color(part, _VIVID) if part >= 0 else (150, 150, 150)


def colorings(
    shape: Mapping[str, Any],  # as in equigeo.report.render_report
) -> dict[str, Coloring]:
    """Return face colorings by name: parts, clusters (coarsest first), attention, none."""
    found = _parts(shape) if "predicted_parts" in shape else {}
    for number, clusters in _last_first(shape["levels"]):
        size = Counter(clusters)
        # Faces that are not merged are grey.
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
    """Return the color of relative attention: blue below 1, nearly white at 1, orange above."""
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
    """Return the numbers of faces and of clusters after each pooling."""
    return [len(shape["faces"]), *(len(set(level)) for level in shape["levels"])]

"""Interactive 3D figure of a shape."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from equigeo.report.colorings import PLAIN
from equigeo.report.plotting import go, set_layout

# Where the camera stands, and the diameter of the sphere around a shape in the same units: under an
# orthographic projection it fills nine tenths of the height, however the shape is turned.
_EYE: Final = {"x": 0.95, "y": 0.95, "z": 0.7}
_DIAMETER: Final = 1.9


def shape_view(
    shape: Mapping[str, Any],  # `vertices` (rows of three) and `faces`
    height: int,  # in pixels
) -> go.Figure:
    """Plot an interactive triangle mesh that fills the figure."""
    x, y, z = zip(*shape["vertices"], strict=True)
    i, j, k = zip(*shape["faces"], strict=True)
    mesh = go.Mesh3d(
        x=x,
        y=y,
        z=z,
        i=i,
        j=j,
        k=k,
        facecolor=[PLAIN] * len(i),
        flatshading=True,
        lighting={"ambient": 0.8, "diffuse": 0.45, "specular": 0.02, "roughness": 1},
        lightposition={"x": 2000, "y": 1000, "z": 3000},
        hoverinfo="skip",
    )
    figure = go.Figure([mesh, _outline(shape)])
    camera = {"eye": _EYE, "projection.type": "orthographic"}
    scene = _box(shape["vertices"]) | {"camera": camera}
    return set_layout(figure, height, (0, 0, 0, 0), scene=scene, showlegend=False)


def _box(vertices: Sequence[Sequence[float]]) -> dict[str, Any]:
    """Return hidden axes with ranges of equal scale."""
    ends = [(min(values), max(values)) for values in zip(*vertices, strict=True)]
    middle = [(low + high) / 2 for low, high in ends]
    diameter = 2 * max(math.dist(vertex, middle) for vertex in vertices) or 1.0
    box: dict[str, Any] = {"aspectmode": "manual", "aspectratio": {}}
    for axis, (low, high), center in zip("xyz", ends, middle, strict=True):
        size = max(high - low, 1e-3 * diameter)  # a plane has no extent, and an axis needs one
        span = [center - size / 2, center + size / 2]
        box[f"{axis}axis"] = {"visible": False, "showspikes": False, "range": span}
        box["aspectratio"][axis] = _DIAMETER * size / diameter
    return box


def _outline(shape: Mapping[str, Any]) -> go.Scatter3d:
    """Plot every edge once."""
    vertices = shape["vertices"]
    edges = sorted(
        {tuple(sorted(e)) for a, b, c in shape["faces"] for e in ((a, b), (b, c), (c, a))}
    )
    points = [p for a, b in edges for p in (vertices[a], vertices[b], (None, None, None))]
    x, y, z = zip(*points, strict=True)
    return go.Scatter3d(
        x=x, y=y, z=z, mode="lines", line={"color": "#556", "width": 1}, hoverinfo="skip"
    )

"""The interactive figure of a shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from equigeo.report.colorings import PLAIN
from equigeo.report.plotting import FONT, go


def shape_view(shape: Mapping[str, Any]) -> go.Figure:
    """Draw a triangle mesh that can be turned.

    Parameters
    ----------
    shape : mapping
        With ``vertices``, rows of three coordinates, and ``faces``, rows of three indices.
    """
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
    hidden = {"visible": False, "showspikes": False}
    figure = go.Figure([mesh, _outline(shape)])
    figure.update_layout(
        template="none",
        font=FONT,
        height=340,
        margin={"l": 0, "r": 0, "t": 0, "b": 0},
        scene={
            "xaxis": hidden,
            "yaxis": hidden,
            "zaxis": hidden,
            "aspectmode": "data",
            "camera": {"eye": {"x": 0.95, "y": 0.95, "z": 0.7}, "projection.type": "orthographic"},
        },
        showlegend=False,
    )
    return figure


def _outline(shape: Mapping[str, Any]) -> go.Scatter3d:
    """Draw every edge once."""
    vertices = shape["vertices"]
    edges = sorted(
        {tuple(sorted(e)) for a, b, c in shape["faces"] for e in ((a, b), (b, c), (c, a))}
    )
    points = [p for a, b in edges for p in (vertices[a], vertices[b], (None, None, None))]
    x, y, z = zip(*points, strict=True)
    return go.Scatter3d(
        x=x, y=y, z=z, mode="lines", line={"color": "#445", "width": 2}, hoverinfo="skip"
    )

"""The interactive figure of a shape coloured by clusters."""

from __future__ import annotations

import colorsys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from equigeo.report.plotting import FONT, go

_PLAIN, _ALONE = "#9db8d4", "#e3e3e3"
_GOLDEN = 0.6180339887498949  # steps of this size never bring two hues together


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
        facecolor=[_PLAIN] * len(i),
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
        height=300,
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


def cluster_colors(shape: Mapping[str, Any]) -> list[list[str]]:
    """Give the colour of every face, for no pooling and after each pooling level.

    Faces that are still alone are grey; every larger cluster has a hue of its own.

    Parameters
    ----------
    shape : mapping
        With ``faces`` and ``levels``, for each pooling level the cluster of every face.

    Examples
    --------
    >>> cluster_colors({"faces": [[0, 1, 2], [0, 2, 3], [3, 4, 5]], "levels": [[0, 0, 1]]})[1]
    ['#cc7070', '#cc7070', '#e3e3e3']
    """
    levels = [[_PLAIN] * len(shape["faces"])]
    for clusters in shape["levels"]:
        size = Counter(clusters)
        levels.append([_ALONE if size[c] == 1 else _hue(c) for c in clusters])
    return levels


def _hue(cluster: int) -> str:
    position = cluster * _GOLDEN % 1
    value = 0.8 + 0.18 * (cluster % 3) / 2
    channels = colorsys.hsv_to_rgb(position, 0.45, value)
    return "#" + "".join(f"{round(255 * c):02x}" for c in channels)


def count_clusters(shape: Mapping[str, Any]) -> Sequence[int]:
    """Count faces, then the clusters of each pooling level.

    Examples
    --------
    >>> count_clusters({"faces": [[0, 1, 2], [0, 2, 3]], "levels": [[0, 0]]})
    [2, 1]
    """
    return [len(shape["faces"]), *(len(set(level)) for level in shape["levels"])]

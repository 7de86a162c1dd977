"""HTML report of a trained classifier, with interactive figures of its shapes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from equigeo.report.html import (
    escape_json,
    escape_text,
    render_class_table,
    render_copies_table,
    render_errors_table,
)
from equigeo.report.page import render_figure, render_heading, render_page
from equigeo.report.plots import (
    ALONE,
    LEAST,
    MOST,
    PLAIN,
    RIGHT,
    SCALE,
    WRONG,
    Coloring,
    Kind,
    colorings,
    confusion_figure,
    count_clusters,
    go,
    hexadecimal,
    part_color,
    set_layout,
    training_curves,
)


def render_report(results: Mapping[str, Any]) -> str:
    """Render a self-contained HTML page of a classifier.

    Parameters
    ----------
    results : mapping of JSON types
        ``title`` and ``lead`` (str); ``facts`` (pairs of str); optionally ``warning`` and
        ``command`` (str). Each of the following adds a section: ``history`` (see
        ``training_curves``), with ``evaluated_part`` (default ``"test"``) and ``measure`` (default
        ``"accuracy"``); ``classes`` and ``confusion``, with ``samples`` (default ``"meshes"``), and
        ``names``, ``labels``, ``predictions`` and ``confidences`` of the evaluated meshes;
        ``copies`` (``kind``, ``accuracy``, ``changed``, ``largest_difference``); ``shapes``
        (``name``, ``vertices``, ``faces``, ``levels``, ``attention`` and parts as in ``colorings``,
        ``prediction``, ``probability``, and optionally ``label``, ``accuracy`` of its faces and
        ``unfamiliar``).

    Examples
    --------
    >>> page = render_report({"title": "<run>", "lead": "", "command": "make", "facts": []})
    >>> "<h1>&lt;run&gt;</h1>" in page
    True
    """
    sections = [render_heading(results)]
    if results.get("history"):
        sections.append(_curves(results))
    if "confusion" in results:
        sections.append(_accuracy(results))
    if results.get("copies"):
        sections.append(_copies(results))
    if results.get("shapes"):
        sections.append(render_shapes(results["shapes"], results.get("classes", ())))
    return render_page(results["title"], "\n".join(sections))


def _curves(results: Mapping[str, Any]) -> str:
    part = escape_text(results.get("evaluated_part", "test"))
    kind = "error" if "train_error" in results["history"][0] else "accuracy"
    caption = (
        f"Mean loss and {kind} over each epoch while training, with jitter and dropout where the "
        f"recipe has them, and the {kind} on the {part} meshes. The model is that of the last "
        f"epoch; none was selected by its {part} {kind}."
    )
    curves = training_curves(results["history"], part, results.get("measure", "accuracy"))
    figure = render_figure("curves", curves, caption)
    return f"<h2>Training</h2>{figure}"


def _accuracy(results: Mapping[str, Any]) -> str:
    samples = escape_text(results.get("samples", "meshes"))
    caption = f"Number of evaluated {samples} by true class (row) and predicted class (column)."
    matrix = confusion_figure(results["classes"], results["confusion"], samples)
    parts = [
        f"<h2>Accuracy by class</h2>{render_class_table(results)}",
        f"<h2>Confusion matrix</h2>{render_figure('confusion', matrix, caption)}",
    ]
    if "predictions" in results:
        parts.append(f"<h2>Misclassified meshes</h2>{render_errors_table(results)}")
    return "".join(parts)


def _copies(results: Mapping[str, Any]) -> str:
    return (
        "<h2>Invariance</h2><p>Every evaluated mesh was transformed at random and classified "
        "again. A model with the promised symmetry changes no prediction.</p>"
        + render_copies_table(results)
    )


# Where the camera stands, and the diameter of the sphere around a shape in the same units: under an
# orthographic projection it fills nine tenths of the height, however the shape is turned.
_EYE: Final = {"x": 0.95, "y": 0.95, "z": 0.7}
_DIAMETER: Final = 1.9
UNFAMILIAR: Final = "resembles nothing it was trained on"
_ALONE_HEIGHT, _HEIGHT = 560, 420  # pixels of the only figure, and of one of several
_CLUSTERS = "Faces that pooling merged share a color; those still alone are gray."
_ATTENTION = (
    "How much the neighbors of a face attend to it in the last convolution of a block: the "
    "weights of its messages, averaged over heads, relative to 1 where every face attends to all "
    "of its neighbors alike. It shows where the network takes its features from, and does not "
    "show which faces decide what it answers."
)


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


def render_shapes(
    shapes: Sequence[Mapping[str, Any]],  # as in `equigeo.report.render_report`
    classes: Sequence[str],  # names of the parts, if any
) -> str:
    """Render interactive figures with a common color selector and keys."""
    height = _ALONE_HEIGHT if len(shapes) == 1 else _HEIGHT
    views: list[str] = []
    found: dict[str, dict[str, Coloring]] = {}
    for number, shape in enumerate(shapes):
        target = f"shape-{number}"
        views.append(render_figure(target, shape_view(shape, height), _caption(shape)))
        found[target] = colorings(shape)
    return (
        f"<h2>Shapes</h2>{_choice(found, classes)}"
        f'<div class="shapes{" one" if len(shapes) == 1 else ""}">{"".join(views)}</div>'
    )


def _choice(found: Mapping[str, Mapping[str, Coloring]], classes: Sequence[str]) -> str:
    """Render the selector of the available colorings; the first one is shown."""
    kinds = {name: one.kind for some in found.values() for name, one in some.items()}
    if set(kinds.values()) == {"plain"}:
        return "<p>The model has no pooling, so faces have one color.</p>"
    options = "".join(
        f'<option data-kind="{kind}">{escape_text(name)}</option>' for name, kind in kinds.items()
    )
    shown = next(iter(kinds.values()))
    keys = "".join(
        f'<p class="key" data-kind="{kind}"{"" if kind == shown else " hidden"}>{key}</p>'
        for kind in dict.fromkeys(kinds.values())
        if (key := _key(kind, classes))
    )
    colors = {
        target: {name: one.colors for name, one in some.items()} for target, some in found.items()
    }
    return (
        f'<p><label>Colors: <select id="coloring">{options}</select></label> '
        f"Drag to turn, scroll to zoom.</p>{keys}"
        f'<script type="application/json" id="colorings">{escape_json(colors)}</script>'
    )


def _key(kind: Kind, classes: Sequence[str]) -> str:
    if kind == "parts":
        return _patches(
            [(hexadecimal(part_color(i)), escape_text(name)) for i, name in enumerate(classes)]
        )
    if kind == "errors":
        return _patches([(RIGHT, "right"), (WRONG, "wrong"), (ALONE, "without a label")])
    if kind == "attention":
        ramp = ", ".join(map(hexadecimal, SCALE))
        return (
            f'<span class="ramp">{LEAST:g} or less <span class="bar" '
            f'style="background: linear-gradient(to right, {ramp})">1</span> '
            f"{MOST:g} or more</span><br>{_ATTENTION}"
        )
    return _CLUSTERS if kind == "clusters" else ""


def _patches(colors: Sequence[tuple[str, str]]) -> str:
    """Render a color key; labels are HTML."""
    return " ".join(
        f'<span class="named"><span class="patch" style="background: {color}"></span> '
        f"{words}</span>"
        for color, words in colors
    )


def _caption(shape: Mapping[str, Any]) -> str:
    lines = [f"<b>{escape_text(shape['name'])}</b>"]
    if "prediction" in shape:
        lines.append(f"predicted {escape_text(shape['prediction'])} ({shape['probability']:.1%})")
    if "label" in shape:
        right = shape["label"] == shape["prediction"]
        verdict = "correct" if right else f"wrong, true class {shape['label']}"
        lines[-1] += f", <span{'' if right else ' class=wrong'}>{escape_text(verdict)}</span>"
    if shape.get("unfamiliar"):
        lines.append(f"<span class=wrong>{UNFAMILIAR}</span>")
    if "accuracy" in shape:
        lines.append(f"{shape['accuracy']:.1%} of the faces right")
    counts = count_clusters(shape)
    if len(counts) > 1:
        lines.append(f"faces, then clusters: {' → '.join(map(str, counts))}")
    return "<br>".join(lines)

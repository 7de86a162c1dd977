"""The report of a trained classifier as one HTML page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from equigeo.report.colorings import colorings, count_clusters, part_color
from equigeo.report.confusion_figure import confusion_figure
from equigeo.report.escape import escape_json, escape_text
from equigeo.report.page import render_figure, render_page
from equigeo.report.palette import hexadecimal
from equigeo.report.shape_view import shape_view
from equigeo.report.tables import render_class_table, render_copies_table, render_errors_table
from equigeo.report.training_curves import training_curves


def render_report(results: Mapping[str, Any]) -> str:
    """Render a self-contained page: no file beside it, no network, every name escaped.

    Parameters
    ----------
    results : mapping of JSON types
        ``title`` and ``lead`` (str); ``facts`` (pairs of str); ``command`` (str), where one made
        it; and, each making a section where it is present, ``history`` (see ``training_curves``);
        ``classes`` and ``confusion``, of meshes or of ``samples`` (str); ``names``, ``labels``,
        ``predictions`` and ``confidences`` of the evaluated meshes; ``copies`` (``kind``,
        ``accuracy``, ``changed``, ``largest_difference``); ``shapes`` (``name``, ``vertices``,
        ``faces``, ``levels``, the cluster of every face after each pooling; ``prediction``,
        ``probability`` and, where it is known, ``label``, or parts as of ``colorings`` with
        ``accuracy``).

    Returns
    -------
    str
        The page.

    Raises
    ------
    KeyError
        If a section lacks a field.
    ValueError
        If a number is not finite.

    Examples
    --------
    >>> page = render_report({"title": "<run>", "lead": "", "command": "make", "facts": []})
    >>> "<h1>&lt;run&gt;</h1>" in page
    True
    """
    sections = [_heading(results)]
    if results.get("history"):
        sections.append(_curves(results))
    if "confusion" in results:
        sections.append(_accuracy(results))
    if results.get("copies"):
        sections.append(_copies(results))
    if results.get("shapes"):
        sections.append(_shapes(results))
    return render_page(results["title"], "\n".join(sections))


def _heading(results: Mapping[str, Any]) -> str:
    facts = "".join(
        f"<tr><th>{escape_text(name)}</th><td>{escape_text(value)}</td></tr>"
        for name, value in results["facts"]
    )
    command = results.get("command")
    return (
        f"<h1>{escape_text(results['title'])}</h1>"
        f'<p class="lead">{escape_text(results["lead"])}</p><table>{facts}</table>'
        + (f"<p>Made by <code>{escape_text(command)}</code></p>" if command else "")
    )


def _curves(results: Mapping[str, Any]) -> str:
    caption = (
        "Mean loss and accuracy over each epoch while training, with jitter and dropout where the "
        "recipe has them, and the accuracy on the evaluated meshes. The model is that of the last "
        "epoch; none was selected by its test accuracy."
    )
    figure = render_figure("curves", training_curves(results["history"]), caption)
    return f"<h2>Training</h2>{figure}"


def _accuracy(results: Mapping[str, Any]) -> str:
    samples = escape_text(results.get("samples", "meshes"))
    caption = f"Number of evaluated {samples} by true class (row) and predicted class (column)."
    matrix = confusion_figure(results["classes"], results["confusion"])
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


def _shapes(results: Mapping[str, Any]) -> str:
    shapes, classes = results["shapes"], results.get("classes", ())
    views, colors = [], {}
    for number, shape in enumerate(shapes):
        target = f"shape-{number}"
        views.append(render_figure(target, shape_view(shape), _shape_caption(shape)))
        colors[target] = colorings(shape)
    names = list(dict.fromkeys(name for choices in colors.values() for name in choices))
    if names == ["before pooling"]:
        intro = "<p>The model has no pooling, so faces have one colour.</p>"
    else:
        options = "".join(f"<option>{escape_text(name)}</option>" for name in names)
        intro = (
            "<p>Faces that pooling merged share a colour; those still alone are grey. Drag to "
            f'turn, scroll to zoom. <label>Colours: <select id="coloring">{options}</select>'
            "</label></p>"
            f'<script type="application/json" id="colorings">{escape_json(colors)}</script>'
        )
    if "predicted parts" in names:
        intro += f"<p>{_key(classes)}</p>"
    return f'<h2>Shapes</h2>{intro}<div class="shapes">{"".join(views)}</div>'


def _key(parts: Sequence[str]) -> str:
    """Say which colour is which part."""
    return " &nbsp; ".join(
        f'<span class="key" style="background: {hexadecimal(part_color(number))}"></span> '
        f"{escape_text(name)}"
        for number, name in enumerate(parts)
    )


def _shape_caption(shape: Mapping[str, Any]) -> str:
    lines = [f"<b>{escape_text(shape['name'])}</b>"]
    if "prediction" in shape:
        lines.append(f"predicted {escape_text(shape['prediction'])} ({shape['probability']:.1%})")
    if "label" in shape:
        right = shape["label"] == shape["prediction"]
        verdict = "correct" if right else f"wrong, true class {shape['label']}"
        lines[-1] += f", <span{'' if right else ' class=wrong'}>{escape_text(verdict)}</span>"
    if "accuracy" in shape:
        lines.append(f"{shape['accuracy']:.1%} of the faces right")
    lines.append(f"clusters: {' → '.join(map(str, count_clusters(shape)))}")
    return "<br>".join(lines)

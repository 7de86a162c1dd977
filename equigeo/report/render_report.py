"""The report of a trained classifier as one HTML page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from equigeo.report.confusion_figure import confusion_figure
from equigeo.report.escape import escape_json, escape_text
from equigeo.report.page import render_figure, render_page
from equigeo.report.shape_view import cluster_colors, count_clusters, shape_view
from equigeo.report.tables import class_table, copies_table, errors_table
from equigeo.report.training_curves import training_curves


def render_report(results: Mapping[str, Any]) -> str:
    """Render a self-contained page: no file beside it, no network, every name escaped.

    Parameters
    ----------
    results : mapping of JSON types
        ``title``, ``lead`` and ``command`` (str); ``facts`` (pairs of str); and, each making a
        section where it is present, ``history`` (see ``training_curves``); ``classes``,
        ``confusion``, ``names``, ``labels``, ``predictions`` and ``confidences`` of the evaluated
        meshes; ``copies`` (``kind``, ``accuracy``, ``changed``, ``largest_difference``);
        ``shapes`` (``name``, ``label``, ``prediction``, ``probability``, ``vertices``, ``faces``,
        ``levels``, the cluster of every face after each pooling).

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
    return (
        f"<h1>{escape_text(results['title'])}</h1>"
        f'<p class="lead">{escape_text(results["lead"])}</p>'
        f"<table>{facts}</table><p>Made by <code>{escape_text(results['command'])}</code></p>"
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
    caption = "Number of evaluated meshes by true class (row) and predicted class (column)."
    matrix = confusion_figure(results["classes"], results["confusion"])
    return (
        f"<h2>Accuracy by class</h2>{class_table(results)}"
        f"<h2>Confusion matrix</h2>{render_figure('confusion', matrix, caption)}"
        f"<h2>Misclassified meshes</h2>{errors_table(results)}"
    )


def _copies(results: Mapping[str, Any]) -> str:
    return (
        "<h2>Invariance</h2><p>Every evaluated mesh was transformed at random and classified "
        "again. A model with the promised symmetry changes no prediction.</p>"
        + copies_table(results)
    )


def _shapes(results: Mapping[str, Any]) -> str:
    shapes = results["shapes"]
    views, colors = [], {}
    for number, shape in enumerate(shapes):
        target = f"shape-{number}"
        views.append(render_figure(target, shape_view(shape), _shape_caption(shape)))
        colors[target] = cluster_colors(shape)
    depth = max(len(shape["levels"]) for shape in shapes)
    if depth == 0:
        intro = "<p>The model has no pooling, so faces have one colour.</p>"
    else:
        options = "".join(
            f'<option value="{level}"{" selected" if level == depth else ""}>'
            f"{'before pooling' if level == 0 else f'after pooling {level}'}</option>"
            for level in range(depth + 1)
        )
        intro = (
            "<p>Faces that pooling merged share a colour; those still alone are grey. Drag to "
            f'turn, scroll to zoom. <label>Clusters: <select id="level">{options}</select>'
            "</label></p>"
            f'<script type="application/json" id="level-colors">{escape_json(colors)}</script>'
        )
    return f'<h2>Shapes</h2>{intro}<div class="shapes">{"".join(views)}</div>'


def _shape_caption(shape: Mapping[str, Any]) -> str:
    right = shape["label"] == shape["prediction"]
    verdict = "correct" if right else f"wrong, true class {shape['label']}"
    counts = " → ".join(map(str, count_clusters(shape)))
    return (
        f"<b>{escape_text(shape['name'])}</b><br>"
        f"predicted {escape_text(shape['prediction'])} ({shape['probability']:.1%}), "
        f"<span{'' if right else ' class=wrong'}>{escape_text(verdict)}</span><br>"
        f"clusters: {counts}"
    )

"""HTML report of a trained classifier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from equigeo.report.html import (
    escape_text,
    render_class_table,
    render_copies_table,
    render_errors_table,
)
from equigeo.report.page import render_figure, render_heading, render_page
from equigeo.report.plots import confusion_figure, training_curves
from equigeo.report.shapes import render_shapes


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
    caption = (
        "Mean loss and accuracy over each epoch while training, with jitter and dropout where the "
        f"recipe has them, and the accuracy on the {part} meshes. The model is that of the last "
        f"epoch; none was selected by its {part} accuracy."
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

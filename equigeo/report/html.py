"""Escaped text and tables of HTML pages."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_TALLEST = 12  # rows, before a table of classes is set in two columns
_LISTED = 20  # misclassified meshes


def escape_text(text: object) -> str:
    """Escape text for HTML and for plotly labels, which are parsed for tags, too."""
    return html.escape(str(text), quote=True)


def escape_json(value: Any) -> str:
    """Serialize JSON types for a script element, so that no string can close it."""
    return json.dumps(value, allow_nan=False).replace("<", "\\u003c")


def render_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Render an HTML table with escaped cells and right-aligned numbers."""
    head = "".join(f"<th>{escape_text(name)}</th>" for name in header)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f'<td class="number">{value:.1%}</td>'
    if isinstance(value, int):
        return f'<td class="number">{value}</td>'
    return f"<td>{escape_text(value)}</td>"


def render_class_table(results: Mapping[str, Any]) -> str:
    """Render accuracy per class."""
    classes, rows = results["classes"], []
    for i, counts in enumerate(results["confusion"]):
        wrong = [f"{classes[j]} ({n})" for j, n in enumerate(counts) if n and j != i]
        if sum(counts):
            rows.append(
                [classes[i], sum(counts), counts[i], counts[i] / sum(counts), ", ".join(wrong)]
            )
    header = ["class", results.get("samples", "meshes"), "correct", "accuracy", "taken for"]
    if len(rows) <= _TALLEST:
        return render_table(header, rows)
    half = (len(rows) + 1) // 2
    return (
        f'<div class="columns">{render_table(header, rows[:half])}'
        f"{render_table(header, rows[half:])}</div>"
    )


def render_copies_table(results: Mapping[str, Any]) -> str:
    """Render predictions on transformed copies."""
    rows = [
        [row["kind"], row["accuracy"], len(row["changed"]), f"{row['largest_difference']:.1e}"]
        for row in results["copies"]
    ]
    header = ["copies", "accuracy", "changed predictions", "largest change of a probability"]
    return render_table(header, rows)


def render_errors_table(results: Mapping[str, Any]) -> str:
    """Render the misclassified meshes, most confident first."""
    classes = results["classes"]
    columns = ("names", "labels", "predictions", "confidences")
    lines = zip(*(results[name] for name in columns), strict=True)
    wrong = sorted((line for line in lines if line[1] != line[2]), key=lambda line: -line[3])
    if not wrong:
        return "<p>Every mesh was classified correctly.</p>"
    rows = [[name, classes[true], classes[seen], sure] for name, true, seen, sure in wrong]
    table = render_table(["mesh", "true class", "predicted class", "probability"], rows[:_LISTED])
    more = len(rows) - _LISTED
    return table if more <= 0 else f"{table}<p>and {more} more</p>"

"""HTML page with the plots of the price of freedom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from equigeo.examples._published_prices import PEERS, published_milliseconds
from equigeo.report.escape import escape_text
from equigeo.report.page import render_figure, render_page
from equigeo.report.plotting import AXIS, go, set_layout
from equigeo.tensor_products import Comparison

_MEASURES = {
    "milliseconds": ("time (ms)", "time of a call"),
    "microseconds_per_published_freedom": (
        "time per freedom (µs)",
        "all paths counted, as published",
    ),
    "microseconds_per_freedom": (
        "time per freedom (µs)",
        "only those paths counted that are computed",
    ),
}
_COLORS = (
    *("#2f6db3", "#17406d", "#7fb0e6", "#d9662c", "#8c3a0f"),
    *("#f0a679", "#3b8f4b", "#8fca9b", "#7a4fa3", "#b3261e"),
)


def render_price_page(
    comparisons: Sequence[Comparison],  # degrees ascending within each setting
    text: str,  # tables below the plots
    command: str,  # command that reproduces the page
) -> str:
    """Render plots of time, and of time per degree of freedom, for each setting."""
    command = escape_text(command)
    sections = ["<h1>The price of freedom</h1>", f"<p>Made by <code>{command}</code></p>"]
    for setting in dict.fromkeys(one.setting for one in comparisons):
        inside = [one for one in comparisons if one.setting == setting]
        sections.append(f"<h2>{setting.upper()}</h2>")
        for measure, (label, meaning) in _MEASURES.items():
            caption = (
                f"{setting.upper()}, batch {inside[0].batch}: {meaning}. "
                "Dotted: published, on another CPU, batch 10000."
            )
            figure = _draw(inside, measure, label)
            sections.append(render_figure(f"{setting}-{measure}", figure, escape_text(caption)))
    tables = f'<pre style="overflow-x: auto">{escape_text(text)}</pre>'
    sections.append(f"<h2>Tables</h2>{tables}")
    return render_page("The price of freedom", "\n".join(sections))


def _draw(comparisons: Sequence[Comparison], measure: str, label: str) -> go.Figure:
    figure = go.Figure()
    names = dict.fromkeys(row.product for one in comparisons for row in one.rows)
    for name, color in zip(names, _COLORS, strict=False):
        look = {"name": name, "legendgroup": name, "line_color": color}
        figure.add_scatter(**_curve(comparisons, name, measure), **look)
        if name in PEERS:
            beside = [_published(one) for one in comparisons]
            figure.add_scatter(
                **_curve(beside, name, measure), **look, line_dash="dot", showlegend=False
            )
    figure.update_xaxes(title_text="L", dtick=1, **AXIS)
    figure.update_yaxes(title_text=label, type="log", dtick=1, exponentformat="power", **AXIS)
    return set_layout(figure, 420, (70, 20, 10, 45))


def _curve(comparisons: Sequence[Comparison], name: str, measure: str) -> dict[str, object]:
    rows = [(one.lmax, row) for one in comparisons for row in one.rows if row.product == name]
    points = [(lmax, getattr(row, measure)) for lmax, row in rows]
    return {
        "x": [lmax for lmax, value in points if value is not None],
        "y": [value for _, value in points if value is not None],
        "mode": "lines+markers",
    }


def _published(comparison: Comparison) -> Comparison:
    """Return comparisons with published times in place of measured ones."""
    rows = tuple(
        replace(
            row,
            milliseconds=published_milliseconds(row.product, comparison.lmax, comparison.setting),
        )
        for row in comparison.rows
    )
    return replace(comparison, rows=rows)

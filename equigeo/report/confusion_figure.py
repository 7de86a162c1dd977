"""Confusion matrix figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from equigeo.report.escape import escape_text
from equigeo.report.plotting import go, set_layout

_LONGEST = 24


def confusion_figure(
    classes: Sequence[str],  # escaped and shortened here
    counts: Sequence[Sequence[int]],  # (true class, predicted class)
    samples: str = "meshes",  # plural noun, HTML
) -> go.Figure:
    """Plot a confusion matrix with true classes as rows."""
    number = len(classes)
    ticks: dict[str, Any] = {
        "tickmode": "array",
        "tickvals": list(range(number)),
        "ticktext": [escape_text(_shorten(name)) for name in classes],
        "showgrid": False,
        "zeroline": False,
        "constrain": "domain",
    }
    heat = go.Heatmap(
        z=counts,
        text=[[str(count) if count else "" for count in row] for row in counts],
        texttemplate="%{text}",
        textfont_size=11 if number <= 20 else 9,
        colorscale=[[0, "#ffffff"], [0.02, "#dbe7f4"], [1, "#2f6db3"]],
        zmin=0,
        showscale=False,
        xgap=1,
        ygap=1,
        hovertemplate=f"true: %{{y}}<br>predicted: %{{x}}<br>{samples}: %{{z}}<extra></extra>",
    )
    figure = go.Figure(heat)
    figure.update_xaxes(title_text="predicted class", tickangle=-45, side="bottom", **ticks)
    figure.update_yaxes(
        title_text="true class", autorange="reversed", scaleanchor="x", ticklabelstandoff=4, **ticks
    )
    for axis in (figure.update_xaxes, figure.update_yaxes):
        axis(showline=True, linecolor="#999", mirror=True, automargin=True, title_standoff=12)
    height = min(820, 240 + 20 * number)
    return set_layout(figure, height, (60, 20, 10, 60), plot_bgcolor="#f4f4f4")


def _shorten(name: str) -> str:
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"

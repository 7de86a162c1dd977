"""Import of plotly with a remedy if it is missing, and the style of figures."""

from __future__ import annotations

from typing import Any, Final

try:
    import plotly.graph_objects as go
    from plotly.offline import get_plotlyjs
    from plotly.subplots import make_subplots
except ImportError as _error:
    raise ImportError("reports need plotly: pip install 'plotly>=5.20'") from _error

__all__ = ["AXIS", "get_plotlyjs", "go", "make_subplots", "set_layout"]

AXIS: Final[dict[str, Any]] = {
    "showline": True, "linecolor": "#999", "gridcolor": "#eee", "zeroline": False,
}  # fmt: skip
_FONT = {"family": "system-ui, -apple-system, 'Segoe UI', sans-serif", "size": 12, "color": "#222"}


def set_layout(
    figure: go.Figure,
    height: int,
    margins: tuple[int, int, int, int],  # left, right, top, bottom
    legend: str = "",  # corner, such as "bottom right"
    **options: Any,
) -> go.Figure:
    """Set the common layout of a figure and return it."""
    if legend:
        y, x = legend.split()
        options["legend"] = {
            "x": 0.02 if x == "left" else 0.98,
            "y": 0.05 if y == "bottom" else 0.98,
            "xanchor": x,
            "yanchor": y,
        }
    margin = dict(zip("lrtb", margins, strict=True))
    figure.update_layout(template="none", font=_FONT, height=height, margin=margin, **options)
    return figure

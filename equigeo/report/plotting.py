"""Import of plotly with a remedy if it is missing."""

from __future__ import annotations

try:
    import plotly.graph_objects as go
    from plotly.offline import get_plotlyjs
    from plotly.subplots import make_subplots
except ImportError as _error:
    raise ImportError("reports need plotly: pip install 'plotly>=5.20'") from _error

__all__ = ["FONT", "get_plotlyjs", "go", "make_subplots"]

FONT = {"family": "system-ui, -apple-system, 'Segoe UI', sans-serif", "size": 12, "color": "#222"}

"""Figures of reports with plotly: style, colors, curves and confusion matrix."""

from __future__ import annotations

import colorsys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from equigeo.report.html import escape_text

__all__ = ["AXIS", "get_plotlyjs", "go", "make_subplots", "set_layout"]
AXIS: Final[dict[str, Any]] = {
    "showline": True, "linecolor": "#999", "gridcolor": "#eee", "zeroline": False,
}  # fmt: skip
FONT = {"family": "system-ui, -apple-system, 'Segoe UI', sans-serif", "size": 12, "color": "#222"}
_GOLDEN = 0.6180339887498949  # steps of this size never bring two hues together
_VALUES = 3  # neighboring numbers differ in brightness too
PLAIN: Final = "#9db8d4"
ALONE, RIGHT, WRONG = "#e3e3e3", "#d5dee6", "#b3261e"
# Attention from half of an even one to one and a half: nine tenths of the faces that networks see.
LEAST, MOST = 0.5, 1.5
SCALE: Final = ((36, 94, 163), (242, 240, 235), (209, 84, 22))  # of LEAST, 1 and MOST
_VIVID = 0.6  # saturation of parts, which are few
Kind = Literal["parts", "errors", "clusters", "attention", "plain"]
_LONGEST = 24
_TRAIN, _TEST = "#2f6db3", "#d9662c"
_FEW = 12  # epochs, with a tick for each


try:
    import plotly.graph_objects as go
    from plotly.offline import get_plotlyjs
    from plotly.subplots import make_subplots
except ImportError as _error:
    raise ImportError("reports need plotly: pip install 'plotly>=5.20'") from _error


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
    figure.update_layout(template="none", font=FONT, height=height, margin=margin, **options)
    return figure


def distinct_color(number: int, saturation: float = 0.45) -> tuple[int, int, int]:
    """Return a distinct RGB color (0 to 255) per number; the saturation is 0 (gray) to 1."""
    value = 0.8 + 0.18 * (number % _VALUES) / (_VALUES - 1)
    channels = colorsys.hsv_to_rgb(number * _GOLDEN % 1, saturation, value)
    red, green, blue = (round(255 * channel) for channel in channels)
    return red, green, blue


def hexadecimal(color: tuple[int, int, int]) -> str:
    """Format a color as hexadecimal for HTML."""
    return "#{:02x}{:02x}{:02x}".format(*color)


def blend(
    first: tuple[int, int, int], second: tuple[int, int, int], share: float
) -> tuple[int, int, int]:
    """Blend two colors; ``share`` from 0 to 1 is that of the second."""
    red, green, blue = (round(a + share * (b - a)) for a, b in zip(first, second, strict=True))
    return red, green, blue


class Coloring(NamedTuple):
    """Color of every face, with the kind of the coloring for the key."""

    kind: Kind
    colors: list[str]


def part_color(part: int) -> tuple[int, int, int]:
    """Return the color of a part in pages and files; negative parts are unknown and gray."""
    return distinct_color(part, _VIVID) if part >= 0 else (150, 150, 150)


def colorings(shape: Mapping[str, Any]) -> dict[str, Coloring]:
    """Return face colorings by name: parts, clusters (coarsest first), attention, none."""
    found = _parts(shape) if "predicted_parts" in shape else {}
    for number, clusters in _last_first(shape["levels"]):
        size = Counter(clusters)
        # Faces that are not merged are gray.
        colors = [ALONE if size[c] == 1 else hexadecimal(distinct_color(c)) for c in clusters]
        found[f"clusters after pooling {number}"] = Coloring("clusters", colors)
    for number, attention in _last_first(shape.get("attention", ())):
        colors = [hexadecimal(attention_color(value)) for value in attention]
        found[f"attention in block {number}"] = Coloring("attention", colors)
    found["none"] = Coloring("plain", [PLAIN] * len(shape["faces"]))
    return found


def _last_first(rows: Sequence[Any]) -> list[tuple[int, Any]]:
    return list(enumerate(rows, 1))[::-1]


def attention_color(value: float) -> tuple[int, int, int]:
    """Return the color of relative attention: blue below 1, nearly white at 1, orange above."""
    low, even, high = SCALE
    if value < 1:
        return blend(even, low, min((1 - value) / (1 - LEAST), 1.0))
    return blend(even, high, min((value - 1) / (MOST - 1), 1.0))


def _parts(shape: Mapping[str, Any]) -> dict[str, Coloring]:
    seen = shape["predicted_parts"]
    parts = {"predicted parts": seen}
    if "labelled_parts" in shape:
        parts["labelled parts"] = shape["labelled_parts"]
    found = {
        name: Coloring("parts", [hexadecimal(part_color(part)) for part in numbers])
        for name, numbers in parts.items()
    }
    if "labelled_parts" in shape:
        errors = [
            ALONE if label < 0 else RIGHT if part == label else WRONG
            for part, label in zip(seen, shape["labelled_parts"], strict=True)
        ]
        found["errors"] = Coloring("errors", errors)
    return found


def count_clusters(shape: Mapping[str, Any]) -> Sequence[int]:
    """Return the numbers of faces and of clusters after each pooling."""
    return [len(shape["faces"]), *(len(set(level)) for level in shape["levels"])]


def confusion_figure(
    classes: Sequence[str],  # escaped and shortened here
    counts: Sequence[Sequence[int]],  # (true class, predicted class)
    samples: str = "meshes",  # plural noun, HTML
) -> go.Figure:
    """Plot a confusion matrix with true classes as rows."""
    number = len(classes)
    short = [x if len(x) <= _LONGEST else x[: _LONGEST - 1] + "…" for x in classes]
    ticks: dict[str, Any] = {
        "tickmode": "array",
        "tickvals": list(range(number)),
        "ticktext": [escape_text(name) for name in short],
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


def training_curves(
    history: Sequence[Mapping[str, Any]],  # test_accuracy may be None, or replaced by val_accuracy
    part: str = "test",  # name of the evaluated samples
    measure: str = "accuracy",  # name of the accuracy, or of the error of a regression
) -> go.Figure:
    """Plot the loss, and training and evaluation accuracy or error, over epochs."""
    kind = "error" if "train_error" in history[0] else "accuracy"
    epochs = [line["epoch"] for line in history]
    figure = make_subplots(rows=1, cols=2, horizontal_spacing=0.1)
    loss = [line["loss"] for line in history]
    trained = [line[f"train_{kind}"] for line in history]
    figure.add_scatter(
        x=epochs, y=loss, mode="lines", line_color=_TRAIN, showlegend=False, row=1, col=1
    )
    figure.add_scatter(
        x=epochs, y=trained, mode="lines", name="training", line_color=_TRAIN, row=1, col=2
    )
    scores = [line.get(f"val_{kind}", line[f"test_{kind}"]) for line in history]
    tested = [(n, score) for n, score in zip(epochs, scores, strict=True) if score is not None]
    if tested:
        figure.add_scatter(
            x=[n for n, _ in tested],
            y=[score for _, score in tested],
            mode="lines+markers",
            name=part,
            line_color=_TEST,
            marker_size=8,
            row=1,
            col=2,
        )
    ticks = {"tickmode": "linear", "tick0": 0, "dtick": 1} if len(epochs) <= _FEW else {}
    figure.update_xaxes(title_text="epoch", **ticks, **AXIS)
    figure.update_yaxes(title_text="loss", rangemode="tozero", row=1, col=1, **AXIS)
    scale = (
        {"rangemode": "tozero"} if kind == "error" else {"range": [0, 1.03], "tickformat": ".0%"}
    )
    figure.update_yaxes(title_text=measure, row=1, col=2, **scale, **AXIS)
    corner = "top right" if kind == "error" else "bottom right"
    return set_layout(figure, 320, (60, 20, 10, 45), legend=corner)

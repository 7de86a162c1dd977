"""Figure of loss and accuracy over epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from equigeo.report.plotting import AXIS, go, make_subplots, set_layout

_TRAIN, _TEST = "#2f6db3", "#d9662c"
_FEW = 12  # epochs, with a tick for each


def training_curves(
    history: Sequence[Mapping[str, Any]],  # test_accuracy may be None
    part: str = "test",  # name of the evaluated samples
    measure: str = "accuracy",  # name of the accuracy
) -> go.Figure:
    """Plot the loss, and training and evaluation accuracy, over epochs."""
    epochs = [line["epoch"] for line in history]
    figure = make_subplots(rows=1, cols=2, horizontal_spacing=0.1)
    loss = [line["loss"] for line in history]
    trained = [line["train_accuracy"] for line in history]
    figure.add_scatter(
        x=epochs, y=loss, mode="lines", line_color=_TRAIN, showlegend=False, row=1, col=1
    )
    figure.add_scatter(
        x=epochs, y=trained, mode="lines", name="training", line_color=_TRAIN, row=1, col=2
    )
    tested = [line for line in history if line["test_accuracy"] is not None]
    if tested:
        figure.add_scatter(
            x=[line["epoch"] for line in tested],
            y=[line["test_accuracy"] for line in tested],
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
    figure.update_yaxes(title_text=measure, range=[0, 1.03], tickformat=".0%", row=1, col=2, **AXIS)
    return set_layout(figure, 320, (60, 20, 10, 45), legend="bottom right")

"""HTML report of an interatomic potential."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from equigeo.report.html import escape_text, render_table
from equigeo.report.page import render_figure, render_heading, render_page
from equigeo.report.plots import AXIS, distinct_color, go, hexadecimal, make_subplots, set_layout

_TRAIN, _VALIDATION = "#2f6db3", "#d9662c"
_KINDS = {
    "energy": ("energy per atom, less its mean (eV/atom)", "energies"),
    "forces": ("component of a force (eV/A)", "forces"),
}


def render_potential_report(results: Mapping[str, Any]) -> str:
    """Render a self-contained HTML page of an interatomic potential.

    Parameters
    ----------
    results : mapping of JSON types
        ``title``, ``lead``, ``facts``, ``warning`` and ``command`` as in `render_report`;
        ``history`` with ``seconds``, ``train_error`` and ``validation_error`` in ``unit``;
        ``sets``, errors by set, with units in their names; ``species``, by set and symbol:
        ``atoms``, ``MAE`` and ``RMSE`` of forces in meV/A; ``parity``, by set: pairs of label and
        prediction of ``energy`` and ``forces``.

    Examples
    --------
    >>> page = render_potential_report({"title": "<run>", "lead": "", "facts": [], "sets": {}})
    >>> "<h1>&lt;run&gt;</h1>" in page
    True
    """
    sections = [render_heading(results)]
    if results["sets"]:
        sections.append(f"<h2>Errors</h2>{_errors(results['sets'])}")
    if results.get("parity"):
        sections.append(f"<h2>Predictions and labels</h2>{_parity(results['parity'])}")
    if results.get("history"):
        sections.append(f"<h2>Learning curve</h2>{_curve(results['history'], results['unit'])}")
    if any(results.get("species", {}).values()):
        sections.append(f"<h2>Errors of forces by element</h2>{_species(results['species'])}")
    return render_page(results["title"], "\n".join(sections))


def _errors(sets: Mapping[str, Mapping[str, float]]) -> str:
    columns = list(dict.fromkeys(name for row in sets.values() for name in row))
    rows = [[name, *(_shown(row.get(c)) for c in columns)] for name, row in sets.items()]
    return render_table(["set", *columns], rows)


def _shown(value: float | None) -> object:
    if value is None:
        return "-"
    return value if isinstance(value, int) else f"{value:.2f}"


def _species(species: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    rows = [
        [name, element, int(row["atoms"]), f"{row['MAE']:.2f}", f"{row['RMSE']:.2f}"]
        for name, elements in species.items()
        for element, row in elements.items()
    ]
    return render_table(["set", "element", "atoms", "MAE (meV/A)", "RMSE (meV/A)"], rows)


def _parity(parity: Mapping[str, Mapping[str, Sequence[Sequence[float]]]]) -> str:
    parts = []
    for kind, (title, name) in _KINDS.items():
        sets = {label: points[kind] for label, points in parity.items() if points[kind]}
        if sets:
            caption = (
                f"Predicted {name} over those of the labels, at most 2,000 points of a set; on the "
                "line a prediction is right."
            )
            figure = parity_figure(sets, title)
            parts.append(render_figure(f"parity-{kind}", figure, caption))
    return f'<div class="columns">{"".join(parts)}</div>'


def parity_figure(
    sets: Mapping[str, Sequence[Sequence[float]]],  # (label, prediction) pairs by set name
    title: str,  # of both axes, with unit
) -> go.Figure:
    """Plot predictions over labels."""
    values = [pair[0] for pairs in sets.values() for pair in pairs]
    ends = [min(values), max(values)]
    figure = go.Figure()
    figure.add_scatter(
        x=ends, y=ends, mode="lines", line={"color": "#999", "width": 1}, showlegend=False,
        hoverinfo="skip",
    )  # fmt: skip
    for k, (name, pairs) in enumerate(sets.items()):
        figure.add_scatter(
            x=[pair[0] for pair in pairs],
            y=[pair[1] for pair in pairs],
            mode="markers",
            name=escape_text(name),
            marker={"size": 4, "opacity": 0.5, "color": hexadecimal(distinct_color(k, 0.8))},
        )
    figure.update_xaxes(title_text=f"label: {title}", **AXIS)
    figure.update_yaxes(title_text=f"prediction: {title}", **AXIS)
    return set_layout(figure, 440, (70, 10, 10, 50), legend="top left")


def _curve(history: Sequence[Mapping[str, Any]], unit: str) -> str:
    caption = (
        "Mean absolute errors over each epoch while training, with weights that move, and on the "
        "validation frames with their running average. The model is that of the end of the run; "
        "no test frame was looked at before."
    )
    return render_figure("curves", learning_curve(history, unit), caption)


def learning_curve(
    history: Sequence[Mapping[str, Any]],  # validation_error may be None
    unit: str,  # of the errors
) -> go.Figure:
    """Plot errors over minutes of training with logarithmic axes."""
    minutes = [seconds / 60 for seconds in accumulate(line["seconds"] for line in history)]
    figure = make_subplots(rows=1, cols=1)
    for name, key, color, mode in (
        ("training", "train_error", _TRAIN, "lines"),
        ("validation", "validation_error", _VALIDATION, "lines+markers"),
    ):
        known = [k for k, line in enumerate(history) if line.get(key)]  # zero has no logarithm
        figure.add_scatter(
            x=[minutes[k] for k in known],
            y=[history[k][key] for k in known],
            mode=mode if len(known) > 1 else "markers",
            name=name,
            line_color=color,
        )
    figure.update_xaxes(title_text="minutes of training", type="log", **AXIS)
    figure.update_yaxes(title_text=f"mean absolute error ({unit})", type="log", **AXIS)
    return set_layout(figure, 340, (70, 20, 10, 45), legend="top right")

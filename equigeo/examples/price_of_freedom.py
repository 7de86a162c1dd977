"""Cost and expressivity of equivariant products beside the published figures.

    python -m equigeo.examples.price_of_freedom --lmax 10 --batch 10000 --output runs/price

Every product is measured in three settings for L = 1, 2, ...; the tables are printed, and a page
with the plots (``index.html``) and the numbers (``results.json``) are saved. The page needs
``pip install 'plotly>=5.20'``.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any, get_args

import torch

from equigeo import tensor_products as tp
from equigeo.report.html import escape_text
from equigeo.report.page import render_figure, render_page
from equigeo.report.plots import AXIS, go, set_layout
from equigeo.tensor_products import Comparison
from equigeo.tensor_products.analysis.compared_product import Setting

# Rows of tp.compare, and the columns of the published tables that stand beside them.
PEERS = {
    "full even": "CG-dense",
    "full_sparse even": "CG-sparse",
    "gaunt grid": "GTP-grid",
    "gaunt fourier": "GTP-Fourier",
    "matrix": "MTP",
    "vector_signal": "VGTP-grid",
}


@cache
def published_prices() -> dict[str, Any]:
    """Load the published figures as JSON types; columns run over L = 1, 2, ..."""
    return dict(json.loads(Path(__file__).with_suffix(".json").read_text("utf-8")))


def published_milliseconds(
    product: str,  # row of `tp.compare`
    lmax: int,  # of the inputs
    setting: str,  # "siso", "simo" or "mimo"
) -> float | None:
    """Return the published time on a CPU at batch 10,000; None if there is none."""
    tables = (t for t in published_prices()["times"] if t["device"].startswith("CPU"))
    columns = next(table["columns"] for table in tables if table["setting"] == setting)
    column: list[float | None] = columns.get(PEERS.get(product), [])
    return column[lmax - 1] if lmax <= len(column) else None


GAUNT = ("gaunt grid", "gaunt fourier", "gaunt paths")
EVEN = ("full even", "full_sparse even", *GAUNT)


def crossovers(
    comparisons: Sequence[Comparison],  # one setting, degrees ascending
    names: Sequence[str],
) -> list[str]:
    """Return which product is the fastest from which degree on."""
    found: list[tuple[int, str]] = []
    for comparison in comparisons:
        times = {
            row.product: row.milliseconds
            for row in comparison.rows
            if row.product in names and row.milliseconds is not None
        }
        if times:
            fastest = min(times, key=times.__getitem__)
            if not found or found[-1][1] != fastest:
                found.append((comparison.lmax, fastest))
    return [f"from L = {lmax} {name}" for lmax, name in found]


def write_report(
    comparisons: Sequence[Comparison],  # degrees ascending within each setting
) -> str:
    """Format all tables with published times, and the crossovers."""
    parts = []
    for comparison in comparisons:
        title, *lines = str(comparison).splitlines()
        times = [row.milliseconds for row in _published(comparison).rows]
        beside = ["published ms", *("-" if time is None else f"{time:.4g}" for time in times)]
        table = [f"{line}  {cell:>12}" for line, cell in zip(lines, beside, strict=True)]
        parts.append("\n".join([title, *table]))
    parts.append(f"published: on a CPU, batch 10000, float32; {published_prices()['source']}")
    for setting in dict.fromkeys(one.setting for one in comparisons):
        inside = [one for one in comparisons if one.setting == setting]
        parts.append(
            f"{setting}: fastest Gaunt product {', '.join(crossovers(inside, GAUNT)) or 'none'}\n"
            f"{setting}: fastest on even paths {', '.join(crossovers(inside, EVEN)) or 'none'}"
        )
    return "\n\n".join(parts) + "\n"


def save(
    comparisons: Sequence[Comparison],
    text: str,
    folder: Path,
    command: str,  # command that reproduces the results
) -> None:
    """Write ``results.json`` and ``index.html``."""
    folder.mkdir(parents=True, exist_ok=True)
    results = {
        "command": command,
        "versions": {"torch": torch.__version__, "python": platform.python_version()},
        "comparisons": [asdict(comparison) for comparison in comparisons],
        "report": text.splitlines(),
    }
    (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    (folder / "index.html").write_text(render_price_page(comparisons, text, command), "utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lmax", type=int, default=10, help="largest degree of the inputs")
    parser.add_argument("--batch", type=int, default=10000, help="samples per call")
    parser.add_argument("--repetitions", type=int, default=20, help="timed calls")
    settings = get_args(Setting)
    parser.add_argument("--settings", nargs="+", choices=settings, default=settings)
    parser.add_argument("--threads", type=int, help="threads of PyTorch, default: unchanged")
    parser.add_argument("--output", type=Path, default=Path("runs/price_of_freedom"))
    given = parser.parse_args(arguments)
    if given.threads is not None:
        torch.set_num_threads(given.threads)
    comparisons = []
    for setting in given.settings:
        for lmax in range(1, given.lmax + 1):
            sys.stderr.write(f"{setting}, L = {lmax}\n")
            comparisons.append(
                tp.compare(lmax, setting, batch=given.batch, repetitions=given.repetitions)
            )
    text = write_report(comparisons)
    sys.stdout.write(text)
    words = sys.argv[1:] if arguments is None else arguments
    command = " ".join(["python -m equigeo.examples.price_of_freedom", *words])
    save(comparisons, text, given.output, command)


_PER_FREEDOM = "time per freedom (µs)"
_MEASURES = {
    "milliseconds": ("time (ms)", "time of a call"),
    "microseconds_per_published_freedom": (_PER_FREEDOM, "all paths counted, as published"),
    "microseconds_per_freedom": (_PER_FREEDOM, "only those paths counted that are computed"),
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


if __name__ == "__main__":
    main()

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
from dataclasses import asdict
from pathlib import Path
from typing import get_args

import torch

from equigeo import tensor_products as tp
from equigeo.examples._published_prices import published_milliseconds, published_prices
from equigeo.tensor_products.analysis.cost import Setting

GAUNT = ("gaunt grid", "gaunt fourier", "gaunt paths")
EVEN = ("full even", "full_sparse even", *GAUNT)


def crossovers(
    comparisons: Sequence[tp.Comparison],  # one setting, degrees ascending
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
    comparisons: Sequence[tp.Comparison],  # degrees ascending within each setting
) -> str:
    """Format all tables with published times, and the crossovers."""
    parts = []
    for comparison in comparisons:
        title, *lines = str(comparison).splitlines()
        times = [
            published_milliseconds(row.product, comparison.lmax, comparison.setting)
            for row in comparison.rows
        ]
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
    comparisons: Sequence[tp.Comparison],
    text: str,
    folder: Path,
    command: str,  # command that reproduces the results
) -> None:
    """Write ``results.json`` and, if plotly is installed, ``index.html``."""
    folder.mkdir(parents=True, exist_ok=True)
    results = {
        "command": command,
        "versions": {"torch": torch.__version__, "python": platform.python_version()},
        "comparisons": [asdict(comparison) for comparison in comparisons],
        "report": text.splitlines(),
    }
    (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    from equigeo.examples._price_page import render_price_page

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


if __name__ == "__main__":
    main()

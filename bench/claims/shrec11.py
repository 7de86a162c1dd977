"""Figures of the mesh classifier on SHREC'11."""

from __future__ import annotations

from functools import partial
from statistics import mean

from bench.claims.values import FIGURES, README, percent, runs
from bench.figures import Claim

SERIES = ("split16_default", "split10_default", "split5_default", "split16_paper", "split5_paper")


def accuracies(series: str) -> list[float]:
    return percent(run["accuracy"] for run in runs(f"shrec11_{series}"))


def described(series: str) -> list[float]:
    """Training shapes per class, mean accuracy and that of each run, parameters and epochs."""
    (first, *_), found = runs(f"shrec11_{series}"), accuracies(series)
    of_runs = found if len(found) > 1 else []
    shapes = float(first["settings"]["train"]["split"])
    return [shapes, mean(found), *of_runs, first["parameters"], first["epochs"]]


def changed_by_reflection() -> list[float]:
    """Predictions of the preset ``paper``, and how many it made."""
    (run,) = runs("shrec11_split16_paper")
    return [run["predictions changed"]["reflected"], run["test meshes"]]


def row(series: str, label: str) -> Claim:
    """A line of the table: every accuracy behind the mean, where there are several."""
    preset, several = series.partition("_")[2], len(accuracies(series))
    each = f" ({', '.join(['{}'] * several)})" if several > 1 else ""
    text = f"| `{preset}` | {{}} | {label} | {{}} %{each} | {{}} | {{}} |"
    return Claim(FIGURES, text, partial(described, series))


SHREC11 = [
    row("split16_default", "seeds 0 to 4"),
    row("split10_default", "ten draws"),
    row("split5_default", "draws 0 to 2"),
    row("split16_paper", "seed 0"),
    row("split5_paper", "draw 0"),
    Claim(FIGURES, "{} of its {} predictions change under reflection", changed_by_reflection),
    Claim(
        README,
        "mean of five seeds | {} % | @ | SHREC'11, 10 training shapes per class, mean of ten draws | {} % |",
        lambda: [mean(accuracies(series)) for series in SERIES[:2]],
    ),
]

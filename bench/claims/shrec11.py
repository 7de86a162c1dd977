"""Figures of the mesh classifier on SHREC'11."""

from __future__ import annotations

from functools import partial
from statistics import mean

from bench.claims.values import FIGURES, README, percent, runs
from bench.figures import Claim

SERIES = ("split16_default", "split10_default", "split5_default", "split16_paper", "split5_paper")
VARIANTS = {
    "the preset": "as_preset",
    "without pooling": "without_pooling",
    "pooling twice": "pooling_twice",
    "a plain mean instead of attention": "mean_instead_of_attention",
    "a path from the primal to the dual stream": "primal_to_dual_coupling",
    "read-out of the dual stream alone": "dual_read_out",
    "read-out of the primal stream alone": "primal_read_out",
    "PD-MeshNet's features": "reference_features",
}


def accuracies(series: str) -> list[float]:
    return percent(run["accuracy"] for run in runs(f"shrec11_{series}"))


def described(series: str) -> list[float]:
    """Training shapes a class, mean accuracy and that of each run, parameters and epochs."""
    (first, *_), found = runs(f"shrec11_{series}"), accuracies(series)
    of_runs = found if len(found) > 1 else []
    shapes = float(first["settings"]["train"]["split"])
    return [shapes, mean(found), *of_runs, first["parameters"], first["epochs"]]


def ablation(variant: str) -> list[float]:
    return percent(run["accuracy"] for run in runs(f"ablation/{variant}"))


def largest_changes() -> list[float]:
    """Of a probability of the default preset over all runs: renumbered copies, and others."""
    found = [
        change
        for series in SERIES[:3]
        for run in runs(f"shrec11_{series}")
        for change in run["largest change of a probability"].items()
    ]
    renumbered = ("re-indexed", "all of these")
    return [max(x for kind, x in found if (kind in renumbered) == side) for side in (True, False)]


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
    Claim(
        FIGURES,
        "probabilities moved by at most {} on renumbered copies and {} on the others",
        largest_changes,
    ),
    Claim(FIGURES, "{} of its {} predictions change under reflection", changed_by_reflection),
    Claim(
        FIGURES,
        "draws 0 and 1, {} test meshes each, where one mesh is {} %",
        lambda: [
            runs("ablation/as_preset")[0]["test meshes"],
            100 / runs("ablation/as_preset")[0]["test meshes"],
        ],
    ),
    *(
        Claim(FIGURES, f"| {words} | {{}} % | {{}} % |", partial(ablation, variant))
        for words, variant in VARIANTS.items()
    ),
    Claim(
        README,
        "mean of five seeds | {} % | @ | SHREC'11, 10 training shapes per class, mean of ten draws | {} % |",
        lambda: [mean(accuracies(series)) for series in SERIES[:2]],
    ),
]

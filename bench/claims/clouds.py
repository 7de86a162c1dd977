"""Figures of embeddings, point clouds and tours."""

from __future__ import annotations

from functools import partial
from statistics import mean

from bench.claims.values import FIGURES, README, ends, percent, rows, runs
from bench.figures import Claim


def embedding(kind: str, *names: str) -> list[float]:
    """Least and greatest ratio over shapes, of one peer after the other."""
    found = [row["times as fast"] for row in rows("mds", kind=kind)]
    return [each for name in names for each in ends(row[name] for row in found)]


def large_cloud(dtype: str) -> float:
    (row,) = rows("mds", problem=f"one cloud of 1000000 points of torch.{dtype}", threads=1)
    return float(row["milliseconds"])


def seeds(network: str, copy: str) -> list[float]:
    """Accuracies of all seeds."""
    return percent(run["accuracy"][copy] for run in runs(f"modelnet10_{network}"))


def cloud_row(network: str) -> list[float]:
    """Accuracies by copy and seed, least share of equal predictions, parameters."""
    found = runs(f"modelnet10_{network}")
    equal = min(run["equal predictions"]["rotated"] for run in found)
    accuracies = [each for copy in COPIES for each in seeds(network, copy)]
    return [*accuracies, 100 * equal, found[0]["parameters"]]


def tours(network: str) -> list[float]:
    """Gaps by way of choosing and seed."""
    found = runs("tsp", network=network)
    return percent(run["gaps"][way] for way in found[0]["gaps"] for run in found)


def identical(network: str, *, all_of_these: bool) -> tuple[float, float]:
    """Least and greatest share of identical tours, over seeds and copies."""
    copies = [copy for run in runs("tsp", network=network) for copy in run["copies"]]
    return ends(
        100 * copy["identical"]
        for copy in copies
        if all_of_these == (copy["kind"] == "all of these")
    )


def cells(columns: int, seeds: int) -> str:
    """Cells of a table with the shares of all seeds."""
    return " | ".join([", ".join(["{}"] * seeds) + " %"] * columns)


def networks(label: str, name: str) -> Claim:
    """A row of the table of networks, with every seed."""
    number = 3 if "seeds" in label else 1
    return Claim(
        FIGURES,
        f"{label} | {cells(len(COPIES), number)} | {{}} % | {{}} |",
        partial(cloud_row, name),
    )


COPIES = ("upright", "rotated", "scaled", "sheared")
NETWORKS = {
    "behind the embedding, seeds 0, 1, 2": "mds",
    "on raw coordinates, seeds 0, 1, 2": "plain",
    "and scales (`default`), seeds 0, 1, 2": "affine-default",
    "rotations (`SO`)": "affine-SO",
    "linear maps (`GLPlus`)": "affine-GLPlus",
}
TOURS = cells(4, 3)  # ways of choosing a tour
BEST_INVARIANT = "upright accuracy is {} points above the best invariant one"
CLOUDS = [
    Claim(
        FIGURES,
        "against the chain with float64 sums | {}x to {}x | {}x to {}x |",
        lambda: [
            *embedding("forward", "embed against eager"),
            *embedding("forward and backward", "embed against eager"),
        ],
    ),
    Claim(
        FIGURES,
        "in float32, which is less accurate | {}x to {}x | {}x to {}x |",
        lambda: [
            *embedding("forward", "embed against eager float32"),
            *embedding("forward and backward", "embed against eager float32"),
        ],
    ),
    Claim(
        FIGURES,
        "symmetric 3x3 matrices are computed {}x faster",
        lambda: [
            rows("mds", problem="100000 symmetric 3 x 3 matrices of torch.float32")[0][
                "times as fast"
            ]
        ],
    ),
    Claim(
        FIGURES,
        "cloud of a million points takes {} ms",
        lambda: [large_cloud("float32")],
    ),
    *(networks(label, name) for label, name in NETWORKS.items()),
    Claim(
        FIGURES,
        BEST_INVARIANT,
        lambda: [max(seeds("plain", "upright")) - max(seeds("mds", "rotated"))],
    ),
    Claim(
        FIGURES,
        f"| behind the embedding | {TOURS} | {{}} % |",
        lambda: [*tours("mds"), min(identical("mds", all_of_these=some)[0] for some in (False, True))],
    ),
    Claim(
        FIGURES,
        f"| raw coordinates | {TOURS} | {{}} to {{}} % |",
        lambda: [*tours("plain"), *identical("plain", all_of_these=False)],
    ),
    Claim(
        FIGURES,
        "greedy tours are {} to {} % above the best known ones",
        lambda: ends(100 * run["transfer_gaps"]["greedy"] for run in runs("tsp")),
    ),
    Claim(
        README,
        "with the embedding, and without | {} %, {} % |",
        lambda: [mean(seeds("mds", "rotated")), mean(seeds("plain", "rotated"))],
    ),
]  # fmt: skip

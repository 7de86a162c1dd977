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


def training(network: str) -> list[float]:
    """Epochs, and least and greatest number of minutes."""
    found = runs(f"modelnet10_{network}")
    return [found[0]["epochs"], *ends(run["training seconds"] / 60 for run in found)]


def trial(variant: str) -> list[float]:
    """Accuracy of both networks on training clouds put aside."""
    found = runs("modelnet10_trials", variant=variant)
    return [
        100 * run["accuracy"]["upright"]
        for network in ("mds", "plain")
        for run in found
        if run["train"]["model"] == network
    ]


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


def transfer(way: str) -> tuple[float, float]:
    return ends(100 * run["transfer_gaps"][way] for run in runs("tsp"))


def cells(columns: int, seeds: int) -> str:
    """Cells of a table with the shares of all seeds."""
    return " | ".join([", ".join(["{}"] * seeds) + " %"] * columns)


def networks(label: str, name: str) -> Claim:
    """A row of the table of networks, with every seed."""
    number = 3 if "seeds" in label else 1
    words = "{} to {}" if number > 1 else "{}"
    last = 2 + (number > 1)
    return Claim(
        FIGURES,
        f"{label} | {cells(len(COPIES), number)} | {{}} % | {{}} | {{}} epochs, {words} min |",
        lambda: [*cloud_row(name), *training(name)[:last]],
    )


COPIES = ("upright", "rotated", "scaled", "sheared")
NETWORKS = {
    "behind the embedding, seeds 0, 1, 2": "mds",
    "coordinates as they stand, seeds 0, 1, 2": "plain",
    "and scales (`default`), seeds 0, 1, 2": "affine-default",
    "rotations (`SO`)": "affine-SO",
    "linear maps (`GLPlus`)": "affine-GLPlus",
}
TRIALS = {
    "as preset": "as the preset has it",
    "half the rate": "half the learning rate",
    "twice the rate": "twice the learning rate",
    "classes by their share": "classes counted as they come",
    "no label smoothing": "no label smoothing",
    "half of the groups": "half of the groups, of 16 points instead of 20",
}
TOURS = cells(4, 3)  # ways of choosing a tour
BEST_INVARIANT = "upright figure is {} points above the best invariant one"
CLOUDS = [
    Claim(
        FIGURES,
        "with sums in float64, as it has them | {} to {} | {} to {} |",
        lambda: [
            *embedding("forward", "embed against eager"),
            *embedding("forward and backward", "embed against eager"),
        ],
    ),
    Claim(
        FIGURES,
        "in float32, which is less exact | {} to {} | {} to {} |",
        lambda: [
            *embedding("forward", "embed against eager float32"),
            *embedding("forward and backward", "embed against eager float32"),
        ],
    ),
    Claim(
        FIGURES,
        "alone, scaled, against the two | {} to {}, {} to {} | {} to {}, {} to {} |",
        lambda: [
            each
            for kind in ("forward", "forward and backward")
            for each in embedding(
                kind, "op rms against eager rms", "op rms against eager rms float32"
            )
        ],
    ),
    Claim(
        FIGURES,
        "symmetric 3x3 matrices are found {} times as fast",
        lambda: [
            rows("mds", problem="100000 symmetric 3 x 3 matrices of torch.float32")[0][
                "times as fast"
            ]
        ],
    ),
    Claim(
        FIGURES,
        "cloud of a million points takes {} ms (float64: {} ms)",
        lambda: [large_cloud("float32"), large_cloud("float64")],
    ),
    Claim(FIGURES, "of which one is {} %", lambda: [100 / runs("modelnet10_trials")[0]["clouds"]]),
    Claim(FIGURES, "where one cloud is {} %.", lambda: [100 / runs("modelnet10_mds")[0]["clouds"]]),
    *(networks(label, name) for label, name in NETWORKS.items()),
    *(
        Claim(FIGURES, f"| {words} | {{}} % | {{}} % |", partial(trial, variant))
        for variant, words in TRIALS.items()
    ),
    Claim(
        FIGURES,
        "The embedding flags {} % of the clouds",
        lambda: [100 * runs("modelnet10_mds")[0]["flagged"]],
    ),
    Claim(
        FIGURES,
        BEST_INVARIANT,
        lambda: [max(seeds("plain", "upright")) - max(seeds("mds", "rotated"))],
    ),
    Claim(
        FIGURES,
        "cities, {} to {} minutes on one core each",
        lambda: ends(run["CPU seconds of this session"] / 60 for run in runs("tsp")),
    ),
    Claim(
        FIGURES,
        f"| behind the embedding | {TOURS} | {{}} % |",
        lambda: [*tours("mds"), min(identical("mds", all_of_these=some)[0] for some in (False, True))],
    ),
    Claim(
        FIGURES,
        f"| coordinates as they stand | {TOURS} | {{}} to {{}} % for one of these, {{}} to {{}} % for "
        "all |",
        lambda: [
            *tours("plain"),
            *identical("plain", all_of_these=False),
            *identical("plain", all_of_these=True),
        ],
    ),
    Claim(
        FIGURES,
        "greedy tours of both are {} to {} % above the best known ones, and the best of all starts "
        "in 8 frames {} to {} %",
        lambda: [*transfer("greedy"), *transfer("every start in 8 frames")],
    ),
    Claim(
        README,
        "with the embedding, and without | {} %, {} % |",
        lambda: [mean(seeds("mds", "rotated")), mean(seeds("plain", "rotated"))],
    ),
]  # fmt: skip

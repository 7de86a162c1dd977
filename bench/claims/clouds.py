"""Figures of embeddings, point clouds and tours."""

from __future__ import annotations

from statistics import mean

from bench.claims.values import FIGURES, README, ends, percent, rows, runs
from bench.figures import Claim, record


def embedding(kind: str, *names: str) -> list[float]:
    """Least and greatest ratio over shapes, of one peer after the other."""
    found = [row["times as fast"] for row in rows("mds", kind=kind)]
    return [each for name in names for each in ends(row[name] for row in found)]


def large_cloud(dtype: str) -> float:
    (row,) = rows("mds", problem=f"one cloud of 1000000 points of torch.{dtype}", threads=1)
    return float(row["milliseconds"])


def clouds(network: str, copy: str, index: int = 0) -> float:
    return 100 * float(runs(f"modelnet10_{network}")[index]["accuracy"][copy])


def embedded(copy: str) -> list[float]:
    """The three seeds of the recipe of now; the first run of the file is of the one before."""
    return [clouds("mds", copy, index) for index in (1, 2, 3)]


def cloud_row(network: str, index: int = 0) -> list[float]:
    run = runs(f"modelnet10_{network}")[index]
    copies = ("upright", "rotated", "scaled", "sheared")
    return [
        *(clouds(network, copy, index) for copy in copies),
        100 * run["equal predictions"]["rotated"], run["parameters"],
    ]  # fmt: skip


def minutes(network: str, index: int = 0) -> float:
    return float(runs(f"modelnet10_{network}")[index]["training seconds"]) / 60


def tours(network: str) -> list[float]:
    return percent(runs("tsp", network=network)[0]["gaps"].values())


def identical(network: str) -> dict[str, float]:
    return {
        copy["kind"]: 100 * copy["identical"] for copy in runs("tsp", network=network)[0]["copies"]
    }


def transfer(way: str) -> tuple[float, float]:
    return ends(100 * run["transfer_gaps"][way] for run in runs("tsp"))


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
    Claim(FIGURES, "where one cloud is {} %.", lambda: [100 / runs("modelnet10_mds")[0]["clouds"]]),
    Claim(
        FIGURES,
        "seeds 0, 1, 2 | {}, {}, {} % | {}, {}, {} % | {}, {}, {} % | {}, {}, {} % | {} % | {} | {} "
        "epochs, {} to {} min |",
        lambda: [
            *embedded("upright"), *embedded("rotated"), *embedded("scaled"), *embedded("sheared"),
            *cloud_row("mds", 1)[4:], runs("modelnet10_mds")[1]["epochs"],
            *ends(minutes("mds", index) for index in (1, 2, 3)),
        ],
    ),
    Claim(
        FIGURES,
        "coordinates as they stand | {} % | {} % | {} % | {} % | {} % | {} | {} epochs, {} min |",
        lambda: [
            *cloud_row("plain", 1), runs("modelnet10_plain")[1]["epochs"], minutes("plain", 1)
        ],
    ),
    Claim(
        FIGURES,
        "and scales (`default`) | {} % | {} % | {} % | {} % | {} % | {} | {} epochs, {} min |",
        lambda: [
            *cloud_row("affine-default"), runs("modelnet10_affine-default")[0]["epochs"],
            minutes("affine-default"),
        ],
    ),
    *(
        Claim(
            FIGURES,
            f"(`{preset}`) | {{}} % | {{}} % | {{}} % | {{}} % | {{}} % | {{}} | {{}} min |",
            lambda preset=preset: [
                *cloud_row(f"affine-{preset}"), minutes(f"affine-{preset}")
            ],
        )
        for preset in ("SO", "GLPlus")
    ),
    Claim(
        FIGURES,
        "The embedding flags {} % of the clouds. On both cores its network takes {} s an epoch, {} "
        "minutes in all",
        lambda: [
            100 * runs("modelnet10_mds")[1]["flagged"],
            mean(line["seconds"] for line in record("modelnet10_timing")["history"]),
            80 / 60 * mean(line["seconds"] for line in record("modelnet10_timing")["history"]),
        ],
    ),
    Claim(
        FIGURES,
        "{} epochs) gave {} % behind the embedding and {} % without",
        lambda: [
            runs("modelnet10_mds")[0]["epochs"],
            clouds("mds", "upright"), clouds("plain", "upright"),
        ],
    ),
    Claim(
        FIGURES,
        BEST_INVARIANT,
        lambda: [clouds("plain", "upright") - max(embedded("rotated"))],
    ),
    Claim(
        FIGURES,
        "cities, {} to {} minutes on one core each",
        lambda: ends(run["CPU seconds of this session"] / 60 for run in runs("tsp")),
    ),
    Claim(
        FIGURES,
        "| behind the embedding | {} % | {} % | {} % | {} % | {} % |",
        lambda: [*tours("mds"), min(identical("mds").values())],
    ),
    Claim(
        FIGURES,
        "| coordinates as they stand | {} % | {} % | {} % | {} % | {} to {} % for one of these, {} % "
        "for all |",
        lambda: [
            *tours("plain"),
            *ends(v for kind, v in identical("plain").items() if kind != "all of these"),
            identical("plain")["all of these"],
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
        "embedded, and without | {} %, {} % |",
        lambda: [clouds("mds", "rotated", 1), clouds("plain", "rotated", 1)],
    ),
]  # fmt: skip

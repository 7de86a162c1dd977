"""Figures of tensor products, and of models that are accelerated."""

from __future__ import annotations

from bench.claims.values import FIGURES, README, ends, mean_least, rows, runs
from bench.figures import Claim, record


def channelwise(problem: str, name: str) -> float:
    return float(record("channelwise")["summary"][f"{problem}, 2 threads"][name])


def better_channelwise(kind: str) -> tuple[float, float]:
    """Against the better of e3nn and cuEquivariance, problems of 1,024 edges, two threads."""
    found = record("channelwise")["summary"]
    return mean_least(
        min(found[name][f"e3nn {kind}"], found[name][f"cuEquivariance {kind}"])
        for name in found
        if name.endswith("1024 edges, 2 threads")
    )


def second_derivatives(other: str) -> list[float]:
    return [row["ratios"][other] for row in rows("second_derivatives")]


def better_connected(kind: str) -> tuple[float, float]:
    """Against the better of e3nn and cuEquivariance, problems with weights."""
    found = record("connected")["summary"].values()
    peer = "cuEquivariance ir_mul"
    return mean_least(
        min(row[f"e3nn {kind}"], row[f"{peer} {kind}"]) for row in found if f"{peer} {kind}" in row
    )


def full(kind: str) -> tuple[float, float]:
    found = record("connected")["summary"]
    return ends(row[f"e3nn {kind}"] for name, row in found.items() if name.startswith("full"))


def harmonics(peer: str, kind: str) -> list[float]:
    times = [row["microseconds"] for row in rows("sphere_2_threads", problem="spherical harmonics")]
    return [row[f"{peer} {kind}"] / row[f"ours {kind}"] for row in times]


def grids() -> tuple[float, float]:
    times = [row["microseconds"] for row in rows("sphere_2_threads", problem="grid")]
    return ends(row["e3nn"] / row["ours"] for row in times)


def accelerated(model: str) -> float:
    return float(runs("interop_models", model=model)[0]["ratio"])


def small(case: str, threads: int) -> float:
    (run,) = runs("small_systems", case=case, threads=threads)
    return float(run["times as fast"]["processor"]["after"])


def training(threads: int) -> list[float]:
    """Steps of training on forces, by the clock on the wall."""
    found = []
    for model in ("mace", "nequip"):
        name = f"training_steps_{model}"
        (run,) = runs(name, case=f"{model}-training", threads=threads)
        found.append(float(run["times as fast"]["wall"]["after"]))
    return found


def molecules(threads: int) -> list[float]:
    gate_points = [small(name, threads) for name in ("gate_points_2101", "v2103", "v2106")]
    return [small("nequip", threads), small("mace", threads), *ends(gate_points)]


def call(layer: str) -> list[float]:
    found = record("fixed_cost")["microseconds"]["8 rows"][layer]
    return [found["forward"], found["both passes"]]


PRODUCTS = [
    Claim(
        FIGURES,
        "Against e3nn {} times as fast for {} rows of `32x0e+32x1o`, {} for mace-large with {} edges "
        "and {} with {}, {} for its convolution with 50 neighbours; against the same composed of the "
        "product and its gradients {}, {}, {} and {}.",
        lambda: [
            *(n for row in rows("second_derivatives")[:3] for n in (row["ratios"]["e3nn"], row["rows"])),
            second_derivatives("e3nn")[3],
            *second_derivatives("composed"),
        ],
    ),
    Claim(
        FIGURES,
        "mace-large, 8,192 edges, against e3nn 0.6 | {} | {} |",
        lambda: [
            channelwise("mace-large, 8192 edges", f"e3nn {kind}") for kind in ("forward", "both")
        ],
    ),
    Claim(
        FIGURES,
        "cuEquivariance's PyTorch path, `ir_mul` | {} | {} |",
        lambda: [
            channelwise("mace-large, 8192 edges", f"cuEquivariance {kind}")
            for kind in ("forward", "both")
        ],
    ),
    Claim(
        FIGURES,
        "against the better of the two | geometric mean {}, least {} | geometric mean {}, least {} "
        "(small ones,",
        lambda: [*better_channelwise("forward"), *better_channelwise("both")],
    ),
    Claim(
        FIGURES,
        "index_select, e3nn and index_add | {} | {} |",
        lambda: [
            channelwise("conv mace-large, 50 neighbours, 8200 edges", kind)
            for kind in ("forward", "both")
        ],
    ),
    Claim(
        FIGURES,
        "| its memory beside inputs, result and gradients, times less | | {} |",
        lambda: [1 / record("conv_memory")["ChannelwiseConv over e3nn"]],
    ),
    Claim(
        FIGURES,
        "inside the convolution instead of before it | {} | |",
        lambda: [channelwise("conv mace-large, 50 neighbours, 8200 edges", "radial layer inside")],
    ),
    Claim(
        FIGURES,
        "(`uvw`), against the better of the two | geometric mean {}, least {} | geometric mean {}, "
        "least {} |",
        lambda: [*better_connected("forward"), *better_connected("both")],
    ),
    Claim(
        FIGURES,
        "even paths, L = 2 to 6, against e3nn | {} to {} | {} to {} |",
        lambda: [*full("forward"), *full("both")],
    ),
    Claim(FIGURES, "L = 2 to 10, against e3nn's grids | {} to {} | |", lambda: grids()),
    Claim(
        FIGURES,
        "l = 1 to 10, against e3nn | geometric mean {}, least {} | geometric mean {}, least {} |",
        lambda: [*mean_least(harmonics("e3nn", "forward")), *mean_least(harmonics("e3nn", "both"))],
    ),
    Claim(
        FIGURES,
        "against sphericart 2.0 | {} to {} | {} to {} |",
        lambda: [
            *ends(harmonics("sphericart", "forward")), *ends(harmonics("sphericart", "both"))
        ],
    ),
    Claim(
        FIGURES,
        "500 atoms, `accelerate` | | {} |",
        lambda: [accelerated("nequip")],
    ),
    Claim(FIGURES, "| MACE 0.3, the same | | {} |", lambda: [accelerated("mace")]),
    Claim(
        FIGURES,
        "32 ethanol molecules, MACE and NequIP, `accelerate`, one thread | | {}, {} |",
        lambda: training(1),
    ),
    Claim(FIGURES, "| the same step, two threads | | {}, {} |", lambda: training(2)),
    Claim(FIGURES, "models, one thread | | {}, {}, {} to {} |", lambda: molecules(1)),
    Claim(FIGURES, "| the same, two threads | | {}, {}, {} to {} |", lambda: molecules(2)),
    Claim(
        FIGURES,
        "own loop, one and two threads | | {}, {} |",
        lambda: [small("mace-hessian", threads) for threads in (1, 2)],
    ),
    Claim(
        FIGURES,
        "a channelwise product {} us forward, {} us with its gradients, `nn.Linear` {} and {} us, "
        "spherical harmonics {} and {} us, where PyTorch's own `2 * x` takes {} and {} us",
        lambda: [
            *call("tensor_products.ChannelwiseTensorProduct"), *call("nn.Linear"),
            *call("tensor_products.SphericalHarmonics"), *call("2 * x"),
        ],
    ),
    Claim(
        FIGURES,
        "A forward pass of mace-large moves {} % of what a copy does",
        lambda: [100 * channelwise("mace-large, 8192 edges", "share of copy bandwidth, forward")],
    ),
    Claim(
        README,
        "with `accelerate` | {} and {} times as fast |",
        lambda: [accelerated("mace"), accelerated("nequip")],
    ),
    Claim(
        README,
        "with gradients, against e3nn 0.6 as it is, not compiled | {} times as fast |",
        lambda: [channelwise("mace-large, 8192 edges", "e3nn both")],
    ),
]  # fmt: skip

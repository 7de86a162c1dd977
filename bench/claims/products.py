"""Figures of tensor products."""

from __future__ import annotations

from functools import partial

from bench.claims.values import FIGURES, README, ends, mean_least, rows, runs
from bench.figures import Claim, record
from bench.peers import KINDS

PRICES = "docs/howto/price_of_freedom.md"
FASTEST, NOT_KEPT = ", fastest mode", ", no results kept"


PEERS = ("e3nn", "cuEquivariance")


def channelwise(problem: str, name: str) -> float:
    return float(record("channelwise")["summary"][f"{problem}, 2 threads"][name])


def in_both_modes(problem: str, peer: str) -> list[float]:
    """Against the eager and the fastest mode: forward, both passes, second derivatives."""
    return [
        channelwise(problem, f"{peer} {kind}{mode}") for kind in KINDS for mode in ("", FASTEST)
    ]


def better_channelwise(kind: str, kept: str = "") -> tuple[float, float]:
    """Against the better of both peers in its fastest mode, problems of 1,024 edges, two threads."""
    found = record("channelwise")["summary"]
    return mean_least(
        min(found[name][f"{peer} {kind}{FASTEST}"] for peer in PEERS)
        for name in found
        if name.endswith(f"1024 edges, 2 threads{kept}")
    )


def better_connected(kind: str) -> tuple[float, float]:
    """Against the better of both peers in its fastest mode, problems with weights."""
    found = record("connected")["summary"]
    peers = (f"e3nn {kind}{FASTEST}", f"cuEquivariance ir_mul {kind}{FASTEST}")
    return mean_least(
        min(row[peer] for peer in peers)
        for name, row in found.items()
        if peers[1] in row and name.endswith("threads")
    )


def full(kind: str) -> tuple[float, float]:
    """Full products of even paths, all degrees."""
    found = record("connected")["summary"]
    return ends(
        row[f"e3nn {kind}{FASTEST}"]
        for name, row in found.items()
        if name.startswith("full") and name.endswith("threads")
    )


def on_the_sphere(problem: str, kind: str, peer: str) -> list[float]:
    """Ratios of all degrees, in ascending order."""
    found = record("sphere_2_threads")["summary"][f"{problem}, {kind}"]
    return [row[f"{peer}{FASTEST}"] for row in found.values()]


def shares_of_copy() -> list[float]:
    return [
        100 * channelwise("mace-large, 8192 edges", f"share of copy bandwidth, {layout} forward")
        for layout in ("mul_ir", "ir_mul")
    ]


def call(layer: str) -> list[float]:
    found = record("fixed_cost")["microseconds"]["8 rows"][layer]
    return [found["forward"], found["both passes"]]


def e3tools() -> tuple[float, float]:
    """Blocks of 2,048 edges with gradients, both sides in their fastest mode."""
    found = rows("e3tools_layers", nodes=128)
    return ends(row["times as fast"][f"{KINDS[1]}, both in their fastest mode"] for row in found)


def price(product: str, value: str = "milliseconds") -> float:
    """Of a MIMO product at L = 10, batch 10,000."""
    (run,) = runs("price_of_freedom", setting="mimo", batch=10_000, lmax=10)
    (row,) = [row for row in run["comparison"]["rows"] if row["product"] == product]
    return float(row[value])


def timed_minutes(repetitions: int = 20) -> float:
    """Minutes of the timed calls of all settings and degrees, batch 10,000."""
    found = runs("price_of_freedom", batch=10_000)
    times = (row["milliseconds"] or 0 for run in found for row in run["comparison"]["rows"])
    return repetitions * sum(times) / 60e3


MODES = " | ".join(["{}x / {}x"] * 3) + " |"
MEANS = " | ".join(["{}x ({}x)"] * 3) + " |"
PRODUCTS = [
    *(
        Claim(FIGURES, f"| {words} | {MODES}", partial(in_both_modes, problem, peer))
        for words, problem, peer in (
            ("channelwise product, 64 rows of `32x0e+32x1o` | e3nn", "small, 64 edges", "e3nn"),
            ("mace-large, 1,024 edges | e3nn", "mace-large, 1024 edges", "e3nn"),
            ("mace-large, 8,192 edges | e3nn", "mace-large, 8192 edges", "e3nn"),
            (
                "mace-large, 8,192 edges, `ir_mul` | cuEquivariance on the CPU",
                "mace-large, 8192 edges", "cuEquivariance",
            ),
            (
                "`ChannelwiseConv`, mace-large, 50 neighbors | index_select, e3nn, index_add",
                "conv mace-large, 50 neighbours, 8200 edges", "e3nn",
            ),
        )
    ),
    Claim(
        FIGURES,
        f"| thirteen models, 1,024 edges, mean (minimum) | the faster of e3nn and cuEquivariance | {MEANS}",
        lambda: [value for kind in KINDS for value in better_channelwise(kind)],
    ),
    Claim(
        FIGURES,
        "Without reuse, the mean of the thirteen models is {}x, {}x and {}x.",
        lambda: [better_channelwise(kind, NOT_KEPT)[0] for kind in KINDS],
    ),
    Claim(
        FIGURES,
        f"| six fully connected products, mean (minimum) | the faster of e3nn and cuEquivariance | {MEANS}",
        lambda: [value for kind in KINDS for value in better_connected(kind)],
    ),
    Claim(
        FIGURES,
        "batch 10,000, range | e3nn, fastest mode | {}x to {}x | {}x to {}x | {}x to {}x |",
        lambda: [value for kind in KINDS for value in full(kind)],
    ),
    Claim(
        FIGURES,
        "| e3nn's grids, fastest mode | {}x to {}x | {}x to {}x | |",
        lambda: [v for kind in KINDS[:2] for v in ends(on_the_sphere("grid", kind, "e3nn"))],
    ),
    Claim(
        FIGURES,
        f"| spherical harmonics, l = 1 to 10, mean (minimum) | e3nn, fastest mode | {MEANS}",
        lambda: [
            value
            for kind in KINDS
            for value in mean_least(on_the_sphere("spherical harmonics", kind, "e3nn"))
        ],
    ),
    Claim(
        FIGURES,
        "| sphericart, fastest mode | {}x to {}x | {}x to {}x | |",
        lambda: [
            value
            for kind in KINDS[:2]
            for value in ends(on_the_sphere("spherical harmonics", kind, "sphericart"))
        ],
    ),
    Claim(
        FIGURES,
        "`ChannelwiseConv` allocates {}x less memory than the e3nn baseline",
        lambda: [1 / record("conv_memory")["ChannelwiseConv over e3nn"]],
    ),
    Claim(
        FIGURES,
        "with 8,192 edges reaches {} % (`mul_ir`) and {} % (`ir_mul`) of the bandwidth of a copy",
        shares_of_copy,
    ),
    Claim(
        FIGURES,
        "{} us and {} us for a channelwise product, {} us and {} us for spherical harmonics, {} us and "
        "{} us for PyTorch's `2 * x`",
        lambda: [
            *call("tensor_products.ChannelwiseTensorProduct"),
            *call("tensor_products.SphericalHarmonics"), *call("2 * x"),
        ],
    ),
    Claim(
        FIGURES,
        "With gradients, both sides in their fastest mode, they are {}x to {}x faster",
        e3tools,
    ),
    Claim(PRICES, "timed calls of 20 repetitions take {} minutes", lambda: [timed_minutes()]),
    Claim(
        PRICES,
        "from L = 3 on: {} ms at L = 10, against {} ms for sparse",
        lambda: [price("gaunt grid"), price("full_sparse even")],
    ),
    Claim(
        PRICES,
        "product has {} degrees of freedom at L = 10, the even paths have {}.",
        lambda: [price(p, "degrees_of_freedom") for p in ("gaunt grid", "full_sparse even")],
    ),
    Claim(
        README,
        "forward and backward | e3nn, eager | {}x | @ | the same product | e3nn, its fastest mode | "
        "{}x |",
        lambda: in_both_modes("mace-large, 8192 edges", "e3nn")[2:4],
    ),
]  # fmt: skip

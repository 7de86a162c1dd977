"""Figures of tensor products."""

from __future__ import annotations

from functools import partial

from bench.claims.values import FIGURES, README, ends, mean_least, rows
from bench.figures import Claim, record
from bench.peers import KINDS

FASTEST, NOT_KEPT = ", fastest mode", ", no results kept"


PEERS = ("e3nn", "cuEquivariance")


def channelwise(problem: str, name: str, of: str = "channelwise", kept: str = "") -> float:
    return float(record(of)["summary"][f"{problem}, 2 threads{kept}"][name])


def in_both_modes(problem: str, peer: str, of: str = "channelwise", kept: str = "") -> list[float]:
    """As the peer is and in its fastest mode: forward, both passes, second derivatives."""
    return [
        channelwise(problem, f"{peer} {kind}{mode}", of, kept)
        for kind in KINDS
        for mode in ("", FASTEST)
    ]


def better_channelwise(kind: str, kept: str = "") -> tuple[float, float]:
    """Against the better of both peers in its fastest mode, problems of 1,024 edges, two threads."""
    found = record("channelwise")["summary"]
    return mean_least(
        min(found[name][f"{peer} {kind}{FASTEST}"] for peer in PEERS)
        for name in found
        if name.endswith(f"1024 edges, 2 threads{kept}")
    )


def second_derivatives(other: str) -> list[float]:
    return [row["ratios"][other] for row in rows("second_derivatives")]


def better_connected(kind: str) -> tuple[float, float]:
    """Against the better of both peers in its fastest mode, problems with weights."""
    found = record("connected")["summary"]
    peers = (f"e3nn {kind}{FASTEST}", f"cuEquivariance ir_mul {kind}{FASTEST}")
    return mean_least(
        min(row[peer] for peer in peers)
        for name, row in found.items()
        if peers[1] in row and name.endswith("threads")
    )


def full(kind: str, mode: str = "", of: str = "connected") -> tuple[float, float]:
    """Full products of even paths, all degrees."""
    found = record(of)["summary"]
    return ends(
        row[f"e3nn {kind}{mode}"]
        for name, row in found.items()
        if name.startswith("full") and name.endswith("threads")
    )


def on_the_sphere(problem: str, kind: str, peer: str, of: str = "sphere_2_threads") -> list[float]:
    """Ratios of all degrees, in ascending order."""
    return [row[peer] for row in record(of)["summary"][f"{problem}, {kind}"].values()]


def harmonics(kind: str, peer: str) -> tuple[float, float]:
    return mean_least(on_the_sphere("spherical harmonics", kind, peer))


def harmonics_avx2(lmax: str) -> list[float]:
    """Against e3nn as it is and in its fastest mode, all passes."""
    found = record("sphere_2_threads_avx2")["summary"]
    return [
        found[f"spherical harmonics, {kind}"][lmax][f"e3nn{mode}"]
        for kind in KINDS
        for mode in ("", FASTEST)
    ]


def shares_of_copy(of: str) -> list[float]:
    return [
        100
        * channelwise("mace-large, 8192 edges", f"share of copy bandwidth, {layout} forward", of)
        for layout in ("mul_ir", "ir_mul")
    ]


def call(layer: str) -> list[float]:
    found = record("fixed_cost")["microseconds"]["8 rows"][layer]
    return [found["forward"], found["both passes"]]


def e3tools(block: str) -> list[float]:
    """Passes of a block of 2,048 edges: both as they are, and both in their fastest mode."""
    (row,) = rows("e3tools_layers", block=block, nodes=128)
    modes = ("", ", both in their fastest mode")
    return [row["times as fast"][f"{kind}{mode}"] for kind in KINDS for mode in modes]


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
        "64 rows of `32x0e+32x1o`, against e3nn 0.6 | {} / {} | {} / {} | {} / {} |",
        lambda: in_both_modes("small, 64 edges", "e3nn"),
    ),
    Claim(
        FIGURES,
        "| mace-large, 1,024 edges, against e3nn | {} / {} | {} / {} | {} / {} |",
        lambda: in_both_modes("mace-large, 1024 edges", "e3nn"),
    ),
    Claim(
        FIGURES,
        "| 8,192 edges, against e3nn | {} / {} | {} / {} | {} / {} |",
        lambda: in_both_modes("mace-large, 8192 edges", "e3nn"),
    ),
    Claim(
        FIGURES,
        "the same against cuEquivariance 0.13 by PyTorch, `ir_mul` | {} / {} | {} / {} | {} / {} |",
        lambda: in_both_modes("mace-large, 8192 edges", "cuEquivariance"),
    ),
    Claim(
        FIGURES,
        "of thirteen models, 1,024 edges, against the better of the two in its fastest mode: mean "
        "(least) | {} ({}) | {} ({}) | {} ({}) |",
        lambda: [value for kind in KINDS for value in better_channelwise(kind)],
    ),
    Claim(
        FIGURES,
        "the same, no memory of results kept | {} ({}) | {} ({}) | {} ({}) |",
        lambda: [
            value for kind in KINDS for value in better_channelwise(kind, NOT_KEPT)
        ],
    ),
    Claim(
        FIGURES,
        "for all libraries alike (`channelwise_memory_kept_by_all.json`) | {} / {} | {} / {} "
        "| {} / {} |",
        lambda: in_both_modes(
            "mace-large, 1024 edges", "e3nn", "channelwise_memory_kept_by_all", NOT_KEPT
        ),
    ),
    Claim(
        FIGURES,
        "against index_select, e3nn and index_add | {} / {} | {} / {} | {} / {} |",
        lambda: in_both_modes("conv mace-large, 50 neighbours, 8200 edges", "e3nn"),
    ),
    Claim(
        FIGURES,
        "(`uvw`), six problems, against the better of the two in its fastest mode: mean (least) "
        "| {} ({}) | {} ({}) | {} ({}) |",
        lambda: [value for kind in KINDS for value in better_connected(kind)],
    ),
    Claim(
        FIGURES,
        "full products, even paths, L = 1 to 6, batch 10,000, against e3nn: least and greatest "
        "| {} to {} / {} to {} | {} to {} / {} to {} | {} to {} / {} to {} |",
        lambda: [
            value for kind in KINDS for mode in ("", FASTEST) for value in full(kind, mode)
        ],
    ),
    Claim(
        FIGURES,
        "Gaunt on a grid, L = 2 to 10, against e3nn's grids | {} to {} / {} to {} "
        "| {} to {} / {} to {} | |",
        lambda: [
            value
            for kind in KINDS[:2]
            for mode in ("", FASTEST)
            for value in ends(on_the_sphere("grid", kind, f"e3nn{mode}"))
        ],
    ),
    Claim(
        FIGURES,
        "10,000 points, l = 1 to 10, against e3nn as it is: mean (least) | {} ({}) | {} ({}) "
        "| {} ({}) |",
        lambda: [value for kind in KINDS for value in harmonics(kind, "e3nn")],
    ),
    Claim(
        FIGURES,
        "the same in its fastest mode | {} ({}) | {} ({}) | {} ({}) |",
        lambda: [value for kind in KINDS for value in harmonics(kind, f"e3nn{FASTEST}")],
    ),
    Claim(
        FIGURES,
        "the same against sphericart 2.0 in its fastest mode: least and greatest | {} to {} "
        "| {} to {} | |",
        lambda: [
            value
            for kind in KINDS[:2]
            for value in ends(on_the_sphere("spherical harmonics", kind, f"sphericart{FASTEST}"))
        ],
    ),
    Claim(
        FIGURES,
        "The convolution needs {} times less memory than that of e3nn beside inputs, result and "
        "gradients; with the radial layer (64 hidden numbers) inside it is {} times as fast, "
        "forward.",
        lambda: [
            1 / record("conv_memory")["ChannelwiseConv over e3nn"],
            channelwise("conv mace-large, 50 neighbours, 8200 edges", "radial layer inside"),
        ],
    ),
    Claim(
        FIGURES,
        "with 8,192 edges moves {} % (`mul_ir`) and {} % (`ir_mul`) of what a copy",
        lambda: shares_of_copy("channelwise"),
    ),
    Claim(
        FIGURES,
        "`sphere_2_threads_avx2.json`): {} % and {} %, and",
        lambda: shares_of_copy("channelwise_avx2"),
    ),
    *(
        Claim(
            FIGURES,
            f"AVX2: {words} | {{}} / {{}} | {{}} / {{}} | {{}} / {{}} |",
            partial(in_both_modes, problem, peer, "channelwise_avx2"),
        )
        for words, problem, peer in (
            ("64 rows of `32x0e+32x1o`, against e3nn", "small, 64 edges", "e3nn"),
            ("mace-large, 1,024 edges, against e3nn", "mace-large, 1024 edges", "e3nn"),
            (
                "mace-large, 1,024 edges, against cuEquivariance, `ir_mul`",
                "mace-large, 1024 edges", "cuEquivariance",
            ),
            (
                "its convolution with 50 neighbours, against e3nn",
                "conv mace-large, 50 neighbours, 8200 edges", "e3nn",
            ),
        )
    ),
    Claim(
        FIGURES,
        "AVX2: full products, L = 1, 2, 4, 6, against e3nn as it is | {}, {}, {}, {} "
        "| {}, {}, {}, {} | {}, {}, {}, {} |",
        lambda: [
            record("connected_avx2")["summary"][
                f"full, even paths, L = {lmax}, 10000 rows, 2 threads"
            ][f"e3nn {kind}"]
            for kind in KINDS
            for lmax in (1, 2, 4, 6)
        ],
    ),
    *(
        Claim(
            FIGURES,
            f"AVX2: {words} | {{}} / {{}} | {{}} / {{}} | {{}} / {{}} |",
            partial(harmonics_avx2, lmax),
        )
        for words, lmax in (
            ("spherical harmonics up to degree 1, against e3nn", "1"), ("up to degree 2", "2"),
        )
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
    *(
        Claim(FIGURES, f"| {words} | {{}} / {{}} | {{}} / {{}} | {{}} / {{}} |", partial(e3tools, block))
        for words, block in (
            ("`ConvBlock`", "ConvBlock"),
            ("`SeparableConvBlock`", "SeparableConvBlock"),
            ("`TransformerBlock`", "TransformerBlock"),
            ("the same with separable convolutions", "TransformerBlock, separable"),
        )
    ),
    Claim(
        README,
        "forward and backward | e3nn, eager | {}x | @ | the same product | e3nn, its fastest mode | "
        "{}x |",
        lambda: in_both_modes("mace-large, 8192 edges", "e3nn")[2:4],
    ),
]  # fmt: skip

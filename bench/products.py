"""Products beside e3nn, cuEquivariance and sphericart in every mode, in one process.

    python -m bench.products channelwise --output bench/results/channelwise.json
    python -m bench.products connected --output bench/results/connected.json
    python -m bench.products sphere --output bench/results/sphere_2_threads.json

Values, gradients and second derivatives of all are compared before anything is timed, peers in
every mode (:mod:`bench.peers`). Times are medians of interleaved rounds.

Fresh results of many megabytes are mapped page by page by the C library's allocator; our kernels
keep the memory of their own, and everything is measured with that and without it. An allocator that
keeps memory for all libraries alike, which the file records, makes the rows without it comparable:
``MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=4294967296``. One number of threads per
process for ``sphere``: sphericart 2.0.4 writes beyond its buffers when they become more.
"""

from __future__ import annotations

import argparse
import functools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from bench.interleaved import copy_bandwidth, medians
from bench.peers import (
    KINDS,
    Compared,
    Layer,
    Library,
    compare,
    drawn,
    e3nn_modes,
    fastest,
    jit_mode,
    with_compiled,
)
from bench.recorder import Record, parsed
from equigeo import tensor_products as tp
from equigeo.graphs import EdgeIndex
from equigeo.interop.cuequivariance import convert
from equigeo.tensor_products.analysis.compared_product import compared_product

SPHERE = "0e+1o+2e+3o"
PROBLEMS: dict[str, tuple[str, str, str]] = {
    "small": ("32x0e+32x1o", "0e+1o", "0e+1o"),  # a call costs as much as the work in it
    "mace-large": ("128x0e+128x1o+128x2e", SPHERE, SPHERE),
    "mace-medium": ("128x0e+128x1o", SPHERE, "0e+1o+2e"),
    "nequip-lips": ("32x0o+32x0e+32x1o+32x1e+32x2o+32x2e", "0e+1o+2e", "0o+0e+1o+1e+2o+2e"),
    "nequip-revmd17-aspirin": ("64x0o+64x0e+64x1o+64x1e", "0e+1o", "0o+0e+1o+1e"),
    "nequip-revmd17-toluene": (
        "64x0o+64x0e+64x1o+64x1e+64x2o+64x2e", "0e+1o+2e", "0o+0e+1o+1e+2o+2e",
    ),
    "nequip-revmd17-benzene": (
        "64x0o+64x0e+64x1o+64x1e+64x2o+64x2e+64x3o+64x3e", SPHERE, "0o+0e+1o+1e+2o+2e+3o+3e",
    ),
    "nequip-water": ("32x0o+32x0e+32x1o+32x1e", "0e+1o", "0o+0e+1o+1e"),
    "nequix-first": ("89x0e", SPHERE, SPHERE),
    "nequix-main": ("128x0e+64x1o+32x2e+32x3o", SPHERE, SPHERE),
    "nequix-last": ("128x0e+64x1o+32x2e+32x3o", SPHERE, "0e"),
    "sevennet-first": ("128x0e", "0e+1e+2e+3e", "0e+1e+2e+3e"),
    "sevennet-main": ("128x0e+64x1e+32x2e+32x3e", "0e+1e+2e+3e", "0e+1e+2e+3e"),
    "sevennet-last": ("128x0e+64x1e+32x2e+32x3e", "0e+1e+2e+3e", "0e"),
}  # fmt: skip
EDGES = {"small": (64,), "mace-large": (64, 1024, 8192)}
DIFFDOCK = "10x1o+10x1e+48x0e+48x0o"
TETRIS = "64x0e+24x1e+24x1o+16x2e+16x2o"
WEIGHTED: dict[str, tuple[str, str, str]] = {
    "diffdock-L1": (DIFFDOCK, "0e+1o", DIFFDOCK),
    "diffdock-L2": (DIFFDOCK, "0e+1o+2e", DIFFDOCK),
    "tetris-poly-1": (SPHERE, SPHERE, TETRIS),
    "tetris-poly-2": (TETRIS, "0e+1o+2e", "0o+6x0e"),
    "e3tools-conv": ("64x0e+16x1o", "0e+1o", "80x0e+16x1o"),
    "e3tools-transformer": ("64x0e+16x1o", "0e+1o", "64x0e+16x1o"),
}
"""Fully connected, with weights of every row."""
CHANNELS = "64x0e+64x1o+64x2e"
UNWEIGHTED: dict[str, Callable[[str], tp.TensorProduct]] = {
    "elementwise": lambda layout: tp.ElementwiseTensorProduct(CHANNELS, CHANNELS, layout=layout),
    "all pairs": lambda layout: tp.FullTensorProduct("8x0e+8x1o+8x2e", "4x0e+4x1o", layout=layout),
}
HIDDEN, NODES, NEIGHBOURS = 64, 164, 50
ROWS, FULL_ROWS, POINTS = 1024, 10_000, 10_000
LAYOUTS = ("mul_ir", "ir_mul")
WANTED = {"e3nn": "ours mul_ir", "cuEquivariance ir_mul": "ours ir_mul"}


def operands(product: Any, rows: int, edges: int) -> list[Tensor]:
    """Both operands and the weights of a product or convolution."""
    dims = product.irreps_in1.dim, product.irreps_in2.dim, product.weight_numel
    return drawn((rows, dims[0]), (edges, dims[1]), (edges, dims[2]))


def numbers_moved(product: Any) -> int:
    """Numbers that a row reads and writes in a forward pass."""
    read = product.irreps_in1.dim + product.irreps_in2.dim + product.weight_numel
    return int(read + product.irreps_out.dim)


def cue_product(
    irreps: tuple[str, str, str], kind: str = "ChannelWise", method: str = "naive", **options: Any
) -> Any:
    import cuequivariance as cue
    import cuequivariance_torch as cuet

    in1, in2, out = (cue.Irreps("O3", text) for text in irreps)
    return getattr(cuet, f"{kind}TensorProduct")(
        in1, in2, out, layout=cue.ir_mul, shared_weights=False, internal_weights=False,
        method=method, **options,
    )  # fmt: skip


def cue_contraction(elements: int, method: str = "naive") -> Any:
    """128 channels, correlation 3, as in MACE."""
    import cuequivariance as cue
    import cuequivariance_torch as cuet
    from cuequivariance.group_theory.experimental.e3nn import O3_e3nn

    texts = ("128x0e+128x1o+128x2e", "128x0e+128x1o")
    return cuet.SymmetricContraction(
        *(cue.Irreps(O3_e3nn, text) for text in texts), contraction_degree=3,
        num_elements=elements, layout=cue.ir_mul, original_mace=True, method=method,
        dtype=torch.float32, math_dtype=torch.float32,
    )  # fmt: skip


def in_layouts(ours: Any, theirs: Any, inputs: list[Tensor]) -> dict[str, Library]:
    """A weighted product in every library and layout."""
    modes: dict[str, dict[str, Layer]] = {
        "ours mul_ir": {"eager": ours},
        "e3nn": e3nn_modes(ours),
        "ours ir_mul": {"eager": convert(theirs)},  # terms and weights in the order of theirs
        "cuEquivariance ir_mul": with_compiled(lambda x, y, w: theirs(x, y, weight=w)),
    }
    return {name: Library(of, inputs, WANTED.get(name)) for name, of in modes.items()}


def channelwise(name: str, edges: int) -> dict[str, Library]:
    """A channelwise product with weights of every edge."""
    ours = tp.ChannelwiseTensorProduct(*PROBLEMS[name])
    return in_layouts(ours, cue_product(PROBLEMS[name]), operands(ours, edges, edges))


def weighted_product(name: str, layout: str = "mul_ir") -> tp.TensorProduct:
    options = {"shared_weights": False, "internal_weights": False}
    return tp.FullyConnectedTensorProduct(*WEIGHTED[name], layout=layout, **options)


def connected(name: str, rows: int = ROWS) -> dict[str, Library]:
    """A fully connected product with weights of every row."""
    ours = weighted_product(name)
    theirs = cue_product(WEIGHTED[name], "FullyConnected")
    return in_layouts(ours, theirs, operands(ours, rows, rows))


def unweighted(ours: Any, rows: int = ROWS, other: Any = None) -> dict[str, Library]:
    """A product without weights beside e3nn's, and maybe in another layout."""
    inputs = operands(ours, rows, rows)[:2]
    found = {
        "ours mul_ir": Library({"eager": ours}, inputs),
        "e3nn": Library(e3nn_modes(ours), inputs, "ours mul_ir"),
    }
    return found | ({} if other is None else {"ours ir_mul": Library({"eager": other}, inputs)})


def random_graph(nodes: int, neighbours: int) -> EdgeIndex:
    """Edges from random nodes to every node."""
    generator = torch.Generator().manual_seed(1)
    target = torch.arange(nodes).repeat_interleave(neighbours)
    source = torch.randint(nodes, target.shape, generator=generator)
    return EdgeIndex.from_edges(torch.stack([source, target]), nodes, nodes)


def by_messages(graph: EdgeIndex, product: Layer) -> Layer:
    """The convolution with a product: gather, multiply, add up."""
    nodes, source, target = graph.num_targets, graph.source, graph.target

    def run(x: Tensor, y: Tensor, w: Tensor) -> Tensor:
        messages = product(x.index_select(0, source), y, w)
        return x.new_zeros(nodes, messages.shape[1]).index_add(0, target, messages)

    return run


@functools.cache
def convolution(name: str) -> dict[str, Library]:
    """The convolution, and its composition of e3nn's product."""
    irreps, graph = PROBLEMS[name], random_graph(NODES, NEIGHBOURS)
    conv, product = tp.ChannelwiseConv(*irreps), tp.ChannelwiseTensorProduct(*irreps)
    inputs = operands(conv, NODES, graph.num_edges)
    return {
        "ours": Library({"eager": lambda x, y, w: conv(x, graph, y, w)}, inputs),
        "e3nn": Library(e3nn_modes(product, partial(by_messages, graph)), inputs, "ours"),
    }


def radial_layer(name: str) -> dict[str, Library]:
    """The radial layer before the convolution, and inside."""
    graph = random_graph(NODES, NEIGHBOURS)
    conv = tp.ChannelwiseConv(*PROBLEMS[name])
    radial = tp.ChannelwiseConv(*PROBLEMS[name], num_hidden=HIDDEN)
    x, y, _ = (given.detach() for given in operands(conv, NODES, graph.num_edges))
    scaled = radial.radial.detach() / HIDDEN**0.5
    hidden = drawn((graph.num_edges, HIDDEN))
    before, inside = "ours, radial layer before", "ours, radial layer inside"
    return {
        before: Library({"eager": lambda h: conv(x, graph, y, h @ scaled)}, hidden),
        inside: Library({"eager": lambda h: radial(x, graph, y, h)}, hidden, before),
    }


def harmonics(lmax: int, number: int = POINTS) -> dict[str, Library]:
    """Values of all degrees at points, normalized as they come."""
    from e3nn import o3

    degrees = list(range(lmax + 1))
    points = drawn((number, 3))
    ours = Library({"eager": lambda x: tp.spherical_harmonics(degrees, x, True)}, points)
    theirs = with_compiled(lambda x: o3.spherical_harmonics(degrees, x, normalize=True))
    with jit_mode("script"):
        theirs["script"] = torch.jit.script(o3.SphericalHarmonics(degrees, normalize=True))
    found = {"ours": ours, "e3nn": Library(theirs, points, "ours")}
    if find_spec("sphericart") and find_spec("sphericart.torch"):
        import sphericart.torch

        computes = with_compiled(sphericart.torch.SphericalHarmonics(lmax).compute)
        # The same functions, with poles on the z axis: compared, but not timed like this.
        as_ours = {m: lambda x, f=compute: f(x[:, [2, 0, 1]]) for m, compute in computes.items()}
        compare({"ours": ours, "sphericart": Library(as_ours, points, "ours")})
        found["sphericart"] = Library(computes, points)
    return found


def grid_product(lmax: int) -> dict[str, Library]:
    """Products of functions of degrees to lmax, all of whose degrees are kept."""
    from e3nn import o3

    resolution = (4 * lmax + 2, 4 * lmax + 1)  # e3nn wants an even number of latitudes
    # Its tables are right to all digits only when it makes them in float64: in float32 a tenth is
    # lost at degree 20.
    exact: dict[str, Any] = {"normalization": "integral", "dtype": torch.float64}
    to_grid = o3.ToS2Grid(lmax, resolution, **exact).float()
    from_grid = o3.FromS2Grid(resolution, 2 * lmax, **exact).float()
    sizes = lmax, lmax, 2 * lmax
    product = tp.GauntTensorProduct(*sizes, basis="integral")
    by_series = tp.GauntTensorProduct(*sizes, method="fourier", basis="integral")
    signals = drawn(*[(POINTS, (lmax + 1) ** 2)] * 2)
    theirs = with_compiled(lambda x, y: from_grid(to_grid(x) * to_grid(y)))
    return {
        "ours": Library({"eager": product}, signals),
        "ours fourier": Library({"eager": by_series}, signals, "ours"),
        "e3nn": Library(theirs, signals, "ours"),
    }


@dataclass(frozen=True)
class Case:
    """A problem of a record: its size, what is compared, and numbers moved per row."""

    problem: str
    count: int
    unit: str
    make: Callable[[], Compared]
    moved: int | None = None
    lmax: int | None = None  # of problems on the sphere, whose summary is by degree


def compared(make: Callable[..., dict[str, Library]], *arguments: Any) -> Compared:
    """All passes of a problem; products on grids have no second derivatives."""
    kinds = KINDS[:2] if make is grid_product else KINDS
    found = compare(make(*arguments), kinds)
    if make is not convolution:
        return found
    return compare(radial_layer(*arguments), ("forward",)) | found


def channelwise_cases() -> Iterator[Case]:
    for name, irreps in PROBLEMS.items():
        moved = numbers_moved(tp.ChannelwiseTensorProduct(*irreps))
        for edges in EDGES.get(name, (1024,)):
            yield Case(name, edges, "edge", partial(compared, channelwise, name, edges), moved)
    problem, make = f"conv mace-large, {NEIGHBOURS} neighbours", partial(compared, convolution)
    yield Case(problem, NODES * NEIGHBOURS, "edge", partial(make, "mace-large"))


def connected_cases() -> Iterator[Case]:
    for name in WEIGHTED:
        moved = numbers_moved(weighted_product(name))
        yield Case(name, ROWS, "row", partial(compared, connected, name), moved)
    for name, of in UNWEIGHTED.items():
        make = partial(compared, unweighted, of("mul_ir"), ROWS, of("ir_mul"))
        yield Case(name, ROWS, "row", make)
    for lmax in range(1, 7):
        even = compared_product("full_sparse even", lmax, "mimo")
        make = partial(compared, unweighted, even, FULL_ROWS)
        yield Case(f"full, even paths, L = {lmax}", FULL_ROWS, "row", make)


def sphere_cases() -> Iterator[Case]:
    for lmax in range(1, 11):
        make = partial(compared, harmonics, lmax)
        yield Case("spherical harmonics", POINTS, "point", make, lmax=lmax)
    for lmax in (2, 4, 6, 8, 10):
        yield Case("grid", POINTS, "point", partial(compared, grid_product, lmax), lmax=lmax)


SETS: dict[str, Callable[[], Iterator[Case]]] = {
    "channelwise": channelwise_cases, "connected": connected_cases, "sphere": sphere_cases,
}  # fmt: skip


def measure(case: Case, rounds: int) -> Iterator[dict[str, Any]]:
    """Time all passes with both settings of the memory of results."""
    repeat = max(1, 1024 // case.count)
    for found in case.make().timed_with_either_memory(rounds, repeat):
        middle = medians(found["seconds"])
        yield {
            "problem": case.problem,
            f"{case.unit}s": case.count,
            "threads": torch.get_num_threads(),
            f"microseconds per {case.unit}": {n: 1e6 * t / case.count for n, t in middle.items()},
            **({} if case.moved is None else {f"bytes per {case.unit}, forward": 4 * case.moved}),
            **({} if case.lmax is None else {"lmax": case.lmax}),
            **found,
        }


def ratios(case: Case, us: dict[str, float], bandwidth: float) -> Iterator[tuple[str, float]]:
    """Speed-ups against peers in eager mode and in the fastest, shares of the copy bandwidth."""
    names = {key.rpartition(" ")[0] for key in us}
    mine = sorted(name for name in names if name in ("ours", *(f"ours {x}" for x in LAYOUTS)))
    for kind in KINDS:
        own = {name: us[f"{name} {kind}"] for name in mine if f"{name} {kind}" in us}
        if not own:
            continue
        for peer in sorted(names & {"e3nn", "cuEquivariance ir_mul", "sphericart"}):
            # Of channelwise products the layout of the peer, of others the faster one.
            beside = own.get(WANTED.get(peer, "ours")) if case.unit == "edge" else None
            least = min(own.values()) if beside is None else beside
            name = peer.removesuffix(" ir_mul") if case.unit == "edge" else peer
            if f"{peer} {kind}" in us:
                yield f"{name} {kind}", us[f"{peer} {kind}"] / least
            yield f"{name} {kind}, fastest mode", fastest(us, peer, kind) / least
        if len(own) == 2:
            yield f"mul_ir / ir_mul {kind}", own["ours mul_ir"] / own["ours ir_mul"]
    for layout in LAYOUTS if case.moved else ():
        share = 4 * case.moved / us[f"ours {layout} forward"] * 1e6 / bandwidth
        yield f"share of copy bandwidth, {layout} forward", share


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("set", choices=tuple(SETS))
    parser.add_argument("--problems", nargs="+", help="by name, by default all")
    parser.add_argument("--rounds", type=int, default=7)
    given = parsed(parser, threads=2, required=True)
    record, bandwidth = Record(given.output), copy_bandwidth()
    rows: list[dict[str, Any]] = []
    summary: dict[str, Any] = {}
    for case in SETS[given.set]():
        if given.problems and case.problem not in given.problems:
            continue
        for row in measure(case, given.rounds):
            us = row[f"microseconds per {case.unit}"]
            rows.append(row)
            print(json.dumps(us), flush=True)
            kept = "" if row["results kept"] else ", no results kept"
            found = {name: round(x, 2) for name, x in ratios(case, us, bandwidth)}
            if case.lmax is None:
                size = f"{case.count} {case.unit}s, {given.threads} threads{kept}"
                summary[f"{case.problem}, {size}"] = found
                continue
            for kind in KINDS:
                of_kind = {
                    k.replace(f" {kind}", ""): x for k, x in found.items() if f" {kind}" in k
                }
                summary.setdefault(f"{case.problem}, {kind}{kept}", {})[case.lmax] = of_kind
    bandwidths = {given.threads: bandwidth / 1e9}
    record.write({"copy bandwidth, GB/s": bandwidths, "summary": summary, "rows": rows})
    print(json.dumps(summary, indent=1))


if __name__ == "__main__":
    main()

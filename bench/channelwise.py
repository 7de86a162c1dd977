"""Channelwise products and convolutions beside e3nn and cuEquivariance, in one process.

    python -m bench.channelwise --output bench/results/channelwise.json

Values, gradients and second derivatives of all are compared before anything is timed, peers in
every mode (:mod:`bench.peers`). Times are medians of interleaved rounds, in microseconds per edge.

Fresh results of many megabytes are mapped page by page by the C library's allocator; our kernels
keep the memory of their own, and everything is measured with that and without it. An allocator that
keeps memory for all libraries alike, which the file records, makes the rows without it comparable::

    MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=4294967296 \
        python -m bench.channelwise --output bench/results/channelwise_memory_kept_by_all.json
"""

from __future__ import annotations

import argparse
import functools
import json
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from bench.interleaved import copy_bandwidth, medians
from bench.peers import (
    KINDS,
    Layer,
    Library,
    calls_as_they_are,
    compare,
    drawn,
    e3nn_modes,
    fastest,
    with_compiled,
)
from bench.recorder import Record, output_arguments
from equigeo import tensor_products as tp
from equigeo.graphs import EdgeIndex
from equigeo.interop.cuequivariance import convert

SPHERE = "0e+1o+2e+3o"
PROBLEMS: dict[str, tuple[str, str, str]] = {
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


SMALL = ("32x0e+32x1o", "0e+1o", "0e+1o")
"""Of networks for small molecules, where a call costs as much as the work in it."""
HIDDEN = 64


def operands(product: tp.ChannelwiseTensorProduct, rows: int, edges: int) -> list[Tensor]:
    """Both operands and the weights of a product or convolution."""
    dims = product.irreps_in1.dim, product.irreps_in2.dim, product.weight_numel
    return drawn((rows, dims[0]), (edges, dims[1]), (edges, dims[2]))


def cue_product(irreps: tuple[str, str, str], method: str = "naive", **options: Any) -> Any:
    import cuequivariance as cue
    import cuequivariance_torch as cuet

    in1, in2, out = (cue.Irreps("O3", text) for text in irreps)
    return cuet.ChannelWiseTensorProduct(
        in1, in2, out, layout=cue.ir_mul, shared_weights=False, internal_weights=False,
        method=method, **options,
    )  # fmt: skip


@functools.cache
def product_modes(irreps: tuple[str, str, str]) -> dict[str, dict[str, Layer]]:
    """One product in every library and layout."""
    ours, theirs = tp.ChannelwiseTensorProduct(*irreps), cue_product(irreps)
    return {
        "ours mul_ir": {"eager": ours},
        "e3nn": e3nn_modes(ours),
        "ours ir_mul": {"eager": convert(theirs)},  # terms and weights in the order of theirs
        "cuEquivariance ir_mul": with_compiled(lambda x, y, w: theirs(x, y, w)),
    }


WANTED = {"e3nn": "ours mul_ir", "cuEquivariance ir_mul": "ours ir_mul"}


def product_libraries(irreps: tuple[str, str, str], edges: int) -> dict[str, Library]:
    """The product in every library, with what it is given."""
    inputs = operands(tp.ChannelwiseTensorProduct(*irreps), edges, edges)
    return {
        name: Library(modes, inputs, WANTED.get(name))
        for name, modes in product_modes(irreps).items()
    }


@functools.cache
def product_calls(name: str, edges: int) -> dict[str, Callable[[], Any]]:
    """Passes of every library and layout as they are, after a comparison of all results."""
    return calls_as_they_are(product_libraries(PROBLEMS[name], edges))


def product_numbers(irreps: tuple[str, str, str]) -> int:
    """Numbers that one edge reads and writes in a forward pass."""
    product = tp.ChannelwiseTensorProduct(*irreps)
    read = product.irreps_in1.dim + product.irreps_in2.dim + product.weight_numel
    return read + product.irreps_out.dim


def measure_product(
    name: str, irreps: tuple[str, str, str], edges: int, rounds: int
) -> Iterator[dict[str, Any]]:
    """All passes of a product in every library."""
    compared = compare(product_libraries(irreps, edges))
    numbers = 4 * product_numbers(irreps)
    for found in compared.timed_with_either_memory(rounds, repeat=max(1, 1024 // edges)):
        yield row(name, edges, found) | {"bytes per edge, forward": numbers}


@functools.cache
def conv_libraries(name: str, nodes: int, neighbours: int) -> dict[str, Library]:
    """The convolution, and its composition of e3nn's product."""
    irreps, graph = PROBLEMS[name], random_graph(nodes, neighbours)
    conv = tp.ChannelwiseConv(*irreps)
    inputs = operands(conv, nodes, graph.num_edges)
    product = tp.ChannelwiseTensorProduct(*irreps)
    theirs = e3nn_modes(product, functools.partial(by_messages, graph))
    return {
        "ours": Library({"eager": lambda x, y, w: conv(x, graph, y, w)}, inputs),
        "e3nn": Library(theirs, inputs, "ours"),
    }


@functools.cache
def radial_libraries(name: str, nodes: int, neighbours: int) -> dict[str, Library]:
    """The radial layer before the convolution, and inside."""
    graph = random_graph(nodes, neighbours)
    conv = tp.ChannelwiseConv(*PROBLEMS[name])
    radial = tp.ChannelwiseConv(*PROBLEMS[name], num_hidden=HIDDEN)
    x, y, _ = (given.detach() for given in operands(conv, nodes, graph.num_edges))
    scaled = radial.radial.detach() / HIDDEN**0.5
    hidden = drawn((graph.num_edges, HIDDEN))
    before, inside = "ours, radial layer before", "ours, radial layer inside"
    return {
        before: Library({"eager": lambda h: conv(x, graph, y, h @ scaled)}, hidden),
        inside: Library({"eager": lambda h: radial(x, graph, y, h)}, hidden, before),
    }


def conv_calls(name: str, nodes: int, neighbours: int) -> dict[str, Callable[[], Any]]:
    """Passes of the convolution and of e3nn as they are, and of the radial layer."""
    radial = calls_as_they_are(radial_libraries(name, nodes, neighbours), ("forward",))
    return calls_as_they_are(conv_libraries(name, nodes, neighbours)) | radial


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


def measure_conv(name: str, nodes: int, neighbours: int, rounds: int) -> Iterator[dict[str, Any]]:
    """All passes of the convolution, and values with the radial layer at both places."""
    radial = compare(radial_libraries(name, nodes, neighbours), kinds=("forward",))
    compared = radial | compare(conv_libraries(name, nodes, neighbours))
    for found in compared.timed_with_either_memory(rounds):
        yield row(f"conv {name}, {neighbours} neighbours", nodes * neighbours, found)


def row(problem: str, edges: int, found: dict[str, Any]) -> dict[str, Any]:
    """What is kept of a comparison."""
    return {
        "problem": problem,
        "edges": edges,
        "threads": torch.get_num_threads(),
        "microseconds per edge": {n: 1e6 * t / edges for n, t in medians(found["seconds"]).items()},
        **found,
    }


def peer_ratios(row: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """Speed-ups against each peer, in eager mode and in its fastest mode, and other ratios."""
    us = row["microseconds per edge"]
    of_conv = row["problem"].startswith("conv")
    pairs = {"e3nn": "ours"} if of_conv else WANTED
    for kind in KINDS:
        for peer, mine in pairs.items():
            name, time = peer.removesuffix(" ir_mul"), us[f"{mine} {kind}"]
            yield f"{name} {kind}", us[f"{peer} {kind}"] / time
            yield f"{name} {kind}, fastest mode", fastest(us, peer, kind) / time
        if not of_conv:
            yield f"mul_ir / ir_mul {kind}", us[f"ours mul_ir {kind}"] / us[f"ours ir_mul {kind}"]
    if of_conv:
        before, inside = (us[f"ours, radial layer {place} forward"] for place in RADIAL)
        yield "radial layer inside", before / inside


def summary(rows: list[dict[str, Any]], bandwidth: float) -> dict[str, Any]:
    """The figures that the tables ask for."""
    lines: dict[str, Any] = {}
    for row in rows:
        ratios = dict(peer_ratios(row))
        if "bytes per edge, forward" in row:
            for layout in LAYOUTS:
                us = row["microseconds per edge"][f"ours {layout} forward"]
                share = row["bytes per edge, forward"] / us * 1e6 / bandwidth
                ratios[f"share of copy bandwidth, {layout} forward"] = share
        kept = "" if row["results kept"] else ", no results kept"
        key = f"{row['problem']}, {row['edges']} edges, {row['threads']} threads{kept}"
        lines[key] = {name: round(value, 2) for name, value in ratios.items()}
    return lines


LAYOUTS = ("mul_ir", "ir_mul")
RADIAL = ("before", "inside")


def measure(problems: list[str], rounds: int) -> Iterator[dict[str, Any]]:
    """Rows of all problems with the present number of threads."""
    for name in problems:
        irreps = {"small": SMALL, **PROBLEMS}[name]
        for edges in EDGES.get(name, (1024,)):
            yield from measure_product(name, irreps, edges, rounds)
    if "mace-large" in problems:
        yield from measure_conv("mace-large", 164, 50, rounds)


EDGES = {"small": (64,), "mace-large": (64, 1024, 8192)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = ["small", *PROBLEMS]
    parser.add_argument("--problems", nargs="+", choices=names, default=names)
    parser.add_argument("--threads", type=int, nargs="+", default=[2])
    parser.add_argument("--rounds", type=int, default=7)
    output_arguments(parser, required=True)
    arguments = parser.parse_args()
    record = Record(arguments.output)
    rows, bandwidths = [], {}
    for threads in sorted({1, *arguments.threads}):
        torch.set_num_threads(threads)
        bandwidths[threads] = copy_bandwidth()
    for threads in arguments.threads:
        torch.set_num_threads(threads)
        for found in measure(arguments.problems, arguments.rounds):
            rows.append(found)
            print(json.dumps(found["microseconds per edge"]), flush=True)
    results = {
        "copy bandwidth, GB/s": {n: b / 1e9 for n, b in bandwidths.items()},
        "summary": summary(rows, max(bandwidths.values())),
        "rows": rows,
    }
    record.write(results)
    print(json.dumps(results["summary"], indent=1))


if __name__ == "__main__":
    main()

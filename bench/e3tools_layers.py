"""Blocks of e3tools as they are, compiled, and accelerated: a convolution and a transformer.

    make bench-interop       # makes the environment, then, among others,
    .venv-e3tools/bin/python -m bench.e3tools_layers --output bench/results/e3tools_layers.json

Blocks are built by the library's own classes, with its default widths of radial networks; weights
are the same on all sides. Values, gradients by features of nodes and edges and by harmonics, and
second derivatives are compared before anything is timed (:mod:`bench.peers`). Compiled, products of
e3nn are those that it did not script, which the compiler can read.
"""

from __future__ import annotations

import argparse
import copy
import json
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor, nn

from bench.interleaved import medians
from bench.peers import KINDS, Layer, Library, compare, drawn, fastest, jit_mode, with_compiled
from bench.products import random_graph
from bench.recorder import Record, output_arguments
from equigeo.interop import accelerate

IRREPS, SPHERE, RADIAL = "64x0e+16x1o", "0e+1o", 32  # of the library's own tests
NEIGHBOURS = 16
OURS, THEIRS = "accelerated", "e3tools"


def conv(separable: bool) -> nn.Module:
    """A gated convolution with a skip, products with all weights or channel by channel."""
    from e3tools.nn import ConvBlock, SeparableConvBlock

    return (SeparableConvBlock if separable else ConvBlock)(IRREPS, IRREPS, SPHERE, RADIAL)


def transformer(separable: bool) -> nn.Module:
    """Attention of four heads whose keys and values are convolutions, norms and a perceptron."""
    from e3nn.o3 import Irreps
    from e3tools.nn import Conv, SeparableConv, TransformerBlock

    irreps, kind = Irreps(IRREPS), SeparableConv if separable else Conv
    return TransformerBlock(irreps, irreps, Irreps(SPHERE), RADIAL, num_heads=4, conv=kind)


BLOCKS: dict[str, Callable[[], nn.Module]] = {
    "ConvBlock": partial(conv, False),
    "SeparableConvBlock": partial(conv, True),
    "TransformerBlock": partial(transformer, False),
    "TransformerBlock, separable": partial(transformer, True),
}


def built(name: str, mode: str = "script") -> nn.Module:
    """A block with the weights of this name, which no mode of e3nn changes."""
    torch.manual_seed(0)
    with jit_mode(mode):
        return BLOCKS[name]().eval().requires_grad_(False)


def libraries(name: str, nodes: int) -> dict[str, Library]:
    """The block in both libraries."""
    graph = random_graph(nodes, NEIGHBOURS)
    pairs = torch.stack([graph.source, graph.target])
    as_it_is, plain = built(name), built(name, "eager")
    plain.load_state_dict(as_it_is.state_dict(), strict=False)
    ours = copy.deepcopy(as_it_is)
    report = accelerate(ours)
    if report.kept:
        raise SystemExit(f"every module must be replaced, got {report}")

    def layer(block: nn.Module) -> Layer:
        def run(x: Tensor, edge: Tensor, sphere: Tensor) -> Tensor:
            result: Tensor = block(x, pairs, edge, sphere)
            return result

        return run

    edges = graph.num_edges
    inputs = drawn((nodes, 112), (edges, RADIAL), (edges, 4))
    theirs = {"eager": layer(as_it_is), "compile": with_compiled(layer(plain))["compile"]}
    return {
        OURS: Library(with_compiled(layer(ours)), inputs),
        THEIRS: Library(theirs, inputs, OURS),
    }


def measure(name: str, nodes: int, rounds: int) -> dict[str, Any]:
    """All passes of a block."""
    compared = compare(libraries(name, nodes))
    found = compared.timed(rounds, repeat=max(1, 64 // nodes))
    times = medians(found["seconds"])
    ratios = {}
    for kind in KINDS:
        ratios[kind] = times[f"{THEIRS} {kind}"] / times[f"{OURS} {kind}"]
        both_fastest = fastest(times, THEIRS, kind) / fastest(times, OURS, kind)
        ratios[f"{kind}, both in their fastest mode"] = both_fastest
    return {
        "block": name,
        "nodes": nodes,
        "edges": nodes * NEIGHBOURS,
        "threads": torch.get_num_threads(),
        "median seconds": times,
        "times as fast": ratios,
        **found,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blocks", nargs="+", choices=tuple(BLOCKS), default=list(BLOCKS))
    parser.add_argument("--nodes", type=int, nargs="+", default=[8, 128])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    output_arguments(parser)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    record = Record(arguments.output)
    rows = []
    for nodes in arguments.nodes:
        for name in arguments.blocks:
            rows.append(measure(name, nodes, arguments.rounds))
            print(name, nodes, json.dumps(rows[-1]["times as fast"]), flush=True)
    record.write({"rows": rows}, e3tools=version("e3tools"))


if __name__ == "__main__":
    main()

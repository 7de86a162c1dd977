"""Memory that convolutions need beside their inputs, results and gradients.

    python -m bench.conv_memory --output bench/results/conv_memory.json

Each way runs in a process of its own, once on a small graph, to load everything, and then on a
larger one; what is counted is the peak of resident memory in that second run (VmHWM of Linux, reset
before), less what was there before it, the result and the gradients.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bench.channelwise import PROBLEMS, by_messages, operands, random_graph
from bench.recorder import Record, output_arguments
from equigeo import tensor_products as tp
from equigeo.graphs import EdgeIndex
from equigeo.interop import to_e3nn

NEIGHBOURS, HIDDEN = 50, 64
Run = Callable[[list[Tensor]], Tensor]


def e3nn(graph: EdgeIndex) -> tuple[Run, list[Tensor]]:
    product = tp.ChannelwiseTensorProduct(*PROBLEMS["mace-large"])
    convolve = by_messages(graph, to_e3nn(product))
    return lambda given: convolve(*given), operands(product, graph.num_targets, graph.num_edges)


def fused(graph: EdgeIndex) -> tuple[Run, list[Tensor]]:
    conv = tp.ChannelwiseConv(*PROBLEMS["mace-large"])
    inputs = operands(conv, graph.num_targets, graph.num_edges)
    return lambda given: conv(given[0], graph, *given[1:]), inputs


def with_hidden(graph: EdgeIndex) -> list[Tensor]:
    conv = tp.ChannelwiseConv(*PROBLEMS["mace-large"])
    x, y, _ = operands(conv, graph.num_targets, graph.num_edges)
    generator = torch.Generator().manual_seed(2)
    return [x.detach(), y.detach(), torch.randn(graph.num_edges, HIDDEN, generator=generator)]


def radial_before(graph: EdgeIndex) -> tuple[Run, list[Tensor]]:
    conv = tp.ChannelwiseConv(*PROBLEMS["mace-large"])
    layer = torch.randn(HIDDEN, conv.weight_numel)
    return lambda given: conv(given[0], graph, given[1], given[2] @ layer), with_hidden(graph)


def radial_inside(graph: EdgeIndex) -> tuple[Run, list[Tensor]]:
    conv = tp.ChannelwiseConv(*PROBLEMS["mace-large"], num_hidden=HIDDEN)
    return lambda given: conv(given[0], graph, *given[1:]).detach(), with_hidden(graph)


WAYS: dict[str, Callable[[EdgeIndex], tuple[Run, list[Tensor]]]] = {
    "index_select, e3nn, index_add, forward and backward": e3nn,
    "ChannelwiseConv, forward and backward": fused,
    "radial layer before ChannelwiseConv, forward": radial_before,
    "RadialChannelwiseConv, forward": radial_inside,
}


def resident(name: str) -> int:
    """Bytes of a line of /proc/self/status."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {name}")


def run_once(way: str, nodes: int) -> dict[str, int]:
    run, inputs = WAYS[way](random_graph(nodes, NEIGHBOURS))
    with torch.set_grad_enabled("backward" in way):
        Path("/proc/self/clear_refs").write_text("5")  # the peak is now what is resident
        before = resident("VmRSS")
        out = run(inputs)
        wanted = [out]
        if "backward" in way:
            direction = torch.ones_like(out)
            wanted += [direction, *torch.autograd.grad(out, inputs, direction)]
    kept = sum(value.numel() * value.element_size() for value in wanted)
    return {"kept": kept, "beside": resident("VmHWM") - before - kept}


def measure(way: str, nodes: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.conv_memory", "--child", way, "--nodes", str(nodes)]
    environment = {**os.environ, "EQUIGEO_RESULT_MEMORY": "0"}
    return {"way": way, **json.loads(subprocess.check_output(command, env=environment))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=164)
    parser.add_argument("--child", choices=tuple(WAYS))
    output_arguments(parser)
    arguments = parser.parse_args()
    if arguments.child:
        run_once(arguments.child, 4)
        print(json.dumps(run_once(arguments.child, arguments.nodes)))
        return
    record = Record(arguments.output)
    rows = [measure(way, arguments.nodes) for way in WAYS]
    theirs, ours, before, inside = (row["beside"] for row in rows)
    results = {
        "problem": f"mace-large, {NEIGHBOURS} neighbours, {arguments.nodes * NEIGHBOURS} edges",
        "ChannelwiseConv over e3nn": ours / theirs,
        "RadialChannelwiseConv over a layer before": inside / before,
        "bytes": rows,
    }
    print(json.dumps(record.write(results), indent=1))


if __name__ == "__main__":
    main()

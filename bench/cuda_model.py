"""What CUDA kernels ask of memory, counted by the simulator: no card has been asked.

    make simulated-kernels
    python bench/cuda_model.py --libraries build/simulated --output bench/results/cuda_model.json

For every kernel of a case: 32-byte sectors of global memory that warps touch, against the least for
as many bytes; turns that shared memory takes, against the least without conflicts of banks; and
barriers. From the sectors follows the time that an H100 SXM needs at least, were nothing in its
caches, at the bandwidth of its data sheet.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from channelwise import PROBLEMS, operands
from interleaved import circumstances

from equigeo import tensor_products as tp
from equigeo.graphs import EdgeIndex

BANDWIDTH = 3.35e12  # bytes per second: NVIDIA H100 SXM data sheet
SECTOR = 32
EDGES, NODES = 96, 12


def product(layout: str, problem: str) -> Callable[[], Any]:
    """A channelwise product of rows."""
    layer = tp.ChannelwiseTensorProduct(*PROBLEMS[problem], layout=layout)
    inputs = operands(layer, EDGES, EDGES)
    return lambda: layer(*inputs)


def conv(layout: str, problem: str) -> Callable[[], Any]:
    """A channelwise convolution over a random graph."""
    layer = tp.ChannelwiseConv(*PROBLEMS[problem], layout=layout)
    generator = torch.Generator().manual_seed(0)
    graph = EdgeIndex.from_edges(
        torch.randint(NODES, (2, EDGES), generator=generator), NODES, NODES
    )
    x, y, weight = operands(layer, NODES, EDGES)
    return lambda: layer(x, graph, y, weight)


CASES = {"channelwise_product": product, "channelwise_conv": conv}
LAYOUTS = ("mul_ir", "ir_mul")


def run_case(name: str, layout: str, problem: str, passes: str) -> None:
    """Make one call, in a process whose kernels are simulated."""
    result = CASES[name](layout, problem)()
    if passes == "both":
        result.sum().backward()


def count(libraries: Path, *case: str) -> list[dict[str, Any]]:
    """Costs of every kernel of a case."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "costs"
        variables = {
            "EQUIGEO_SIMULATE_CUDA": "1",
            "EQUIGEO_SIMULATE_COSTS": str(file),
            "EQUIGEO_KERNELS": str((libraries / "thread").absolute()),
        }
        command = [sys.executable, __file__, "--case", *case]
        subprocess.run(command, check=True, env={**os.environ, **variables})
        return [described(json.loads(line)) for line in file.read_text().splitlines()]


def described(costs: dict[str, Any]) -> dict[str, Any]:
    """Ratios to the least, and the time of the sectors."""
    sectors = costs["load_sectors"] + costs["store_sectors"]
    least = costs["least_load_sectors"] + costs["least_store_sectors"]
    return {
        **costs,
        "sectors against the least": round(sectors / max(1, least), 3),
        "bank turns against the least": round(
            costs["bank_turns"] / max(1, costs["least_bank_turns"]), 3
        ),
        "microseconds on an H100 at least": 1e6 * SECTOR * sectors / BANDWIDTH,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--libraries", type=Path, default=Path("build/simulated"))
    parser.add_argument("--problem", default="mace-large", choices=PROBLEMS)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--case", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        run_case(*options.case)
        return
    found = {
        f"{name}, {layout}, {passes}": count(
            options.libraries, name, layout, options.problem, passes
        )
        for name in CASES
        for layout in LAYOUTS
        for passes in ("forward", "both")
    }
    record = {"circumstances": circumstances(), "problem": options.problem, "edges": EDGES}
    text = json.dumps({**record, "nodes": NODES, "cases": found}, indent=1) + "\n"
    if options.output:
        options.output.write_text(text)
    for case, kernels in found.items():
        for kernel in kernels:
            ratios = (kernel["sectors against the least"], kernel["bank turns against the least"])
            print(f"{case:40} {kernel['kernel']:40} sectors {ratios[0]:6}  banks {ratios[1]:6}")


if __name__ == "__main__":
    main()

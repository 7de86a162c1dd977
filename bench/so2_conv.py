"""Convolutions by orders beside fairchem-core's layers, and beside our channelwise convolution.

    python -m bench.so2_conv --fairchem FOLDER --output bench/results/so2_conv.json

The peer is rotation matrices from quaternions, gather, ``bmm``, ``SO2_Convolution``, ``bmm`` and
``index_add`` of fairchem-core, installed into a folder without its dependencies; it is left out
where there is none. Results and gradients are compared before anything is timed. Both sides compute
their rotations inside, and gradients are those of features, edges, modulation and weights.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

from bench.recorder import Record, output_arguments
from equigeo import nn as enn
from equigeo import tensor_products as tp
from equigeo.graphs import EdgeIndex
from equigeo.reps import Irreps

NEIGHBOURS = 16
ORDERS, CHANNELS = ((2, 2), (4, 2), (6, 2)), (16, 32, 64, 128)
Convolve = Callable[[Tensor, Tensor, Tensor], Tensor]


def interleaved(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Seconds that the thread computed in each call, whoever else has the processor."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.thread_time()
            call()
            seconds[name].append(time.thread_time() - start)
    return seconds


def graph_of(edges: int) -> EdgeIndex:
    nodes = edges // NEIGHBOURS
    target = torch.arange(nodes).repeat_interleave(NEIGHBOURS)
    source = torch.randint(nodes, target.shape, generator=torch.Generator().manual_seed(1))
    return EdgeIndex.from_edges(torch.stack([source, target]), nodes, nodes)


def import_fairchem(folder: Path) -> None:
    """Its packages without what they import first."""
    sys.path.insert(0, str(folder))
    for name in ("fairchem", "fairchem.core"):
        package = types.ModuleType(name)
        package.__path__ = [str(folder / name.replace(".", "/"))]
        sys.modules[name] = package


def fairchem(
    lmax: int, mmax: int, channels: int, graph: EdgeIndex, dtype: torch.dtype
) -> tuple[Convolve, torch.nn.Module]:
    from fairchem.core.models.uma.common.quaternion.quaternion_wigner_utils import (
        create_wigner_data_module,
    )
    from fairchem.core.models.uma.common.quaternion.wigner_d_hybrid import (
        axis_angle_wigner_hybrid,
    )
    from fairchem.core.models.uma.common.so3 import CoefficientMapping
    from fairchem.core.models.uma.nn.so2_layers import SO2_Convolution

    device = graph.source.device
    mapping = CoefficientMapping(lmax, mmax)
    layer = SO2_Convolution(channels, channels, lmax, mmax, mapping).to(device, dtype)
    data = create_wigner_data_module(lmax=lmax, lmin=5).to(device, dtype)
    kept = CoefficientMapping(lmax, lmax).coefficient_idx(lmax, mmax).to(device)
    to_m = mapping.to_m.to(device, dtype)
    source, target, width = graph.source, graph.target, (lmax + 1) ** 2

    def convolve(x: Tensor, vectors: Tensor, scale: Tensor) -> Tensor:
        rotation, _ = axis_angle_wigner_hybrid(
            vectors, lmax, gamma=vectors.new_zeros(len(vectors)), coeffs=data.coeffs,
            U_blocks=data.U_blocks, custom_kernels=data.custom_kernels,
        )  # fmt: skip
        by_order = to_m @ rotation[:, kept]
        sent = torch.bmm(by_order, x.view(-1, width, channels)[source])
        messages = torch.bmm(by_order.mT, layer(sent, scale)).flatten(1)
        return messages.new_zeros(graph.num_targets, messages.shape[1]).index_add(
            0, target, messages
        )

    return convolve, layer


def equigeo(
    lmax: int, mmax: int, channels: int, graph: EdgeIndex, dtype: torch.dtype
) -> tuple[Convolve, tp.SO2Conv]:
    irreps = Irreps([(channels, (l, (-1) ** l)) for l in range(lmax + 1)], "ir_mul")
    options = {"group": "SO3", "modulation": "order", "bias": True, "layout": "ir_mul"}
    conv = tp.SO2Conv(irreps, irreps, mmax=mmax, **options).to(graph.source.device, dtype)
    return lambda x, vectors, scale: conv(x, graph, vectors, scale), conv


def take_weights(conv: tp.SO2Conv, layer: torch.nn.Module) -> None:
    state = layer.state_dict()
    parts = [state["fc_m0.weight"].flatten()]
    parts += [state[f"so2_m_conv.{m - 1}.fc.weight"].flatten() for m in range(1, conv.mmax + 1)]
    conv.set_matrices(torch.cat(parts))
    conv.bias.data.copy_(state["fc_m0.bias"])


def operands(lmax: int, mmax: int, channels: int, graph: EdgeIndex, dtype: torch.dtype) -> Any:
    generator = torch.Generator().manual_seed(0)
    numbers = channels * sum(lmax + 1 - m for m in range(mmax + 1))
    nodes, edges = graph.num_targets, graph.num_edges
    shapes = (nodes, channels * (lmax + 1) ** 2), (edges, 3), (edges, numbers)
    drawn = [torch.randn(shape, dtype=torch.float64, generator=generator) for shape in shapes]
    return [x.to(dtype).requires_grad_() for x in drawn]


def both_passes(convolve: Convolve, inputs: list[Tensor], module: torch.nn.Module) -> list[Tensor]:
    out = convolve(*inputs)
    wanted = [*inputs, *module.parameters()]
    return [out, *torch.autograd.grad(out, wanted, torch.ones_like(out))]


def differences(ours: list[Tensor], theirs: list[Tensor]) -> list[float]:
    """Relative errors of the result and of the gradients of features, edges and modulation."""
    pairs = list(zip(ours, theirs, strict=False))[:4]
    return [float((a - b).detach().norm() / b.detach().norm()) for a, b in pairs]


def compare(lmax: int, mmax: int, channels: int, edges: int, rounds: int) -> dict[str, Any]:
    graph = graph_of(edges)
    errors = {}
    for dtype in (torch.float64, torch.float32):
        mine, conv = equigeo(lmax, mmax, channels, graph, dtype)
        theirs, layer = fairchem(lmax, mmax, channels, graph, dtype)
        take_weights(conv, layer)
        inputs = operands(lmax, mmax, channels, graph, dtype)
        errors[str(dtype)] = differences(
            both_passes(mine, inputs, conv), both_passes(theirs, inputs, layer)
        )

    def forward(convolve: Convolve) -> Callable[[], Any]:
        def call() -> Tensor:
            with torch.no_grad():
                return convolve(*inputs)

        return call

    found = {"edges": edges, "lmax": lmax, "mmax": mmax, "channels": channels, "errors": errors}
    calls = {"equigeo": forward(mine), "fairchem": forward(theirs)}
    passes = {
        "equigeo": lambda: both_passes(mine, inputs, conv),
        "fairchem": lambda: both_passes(theirs, inputs, layer),
    }
    for name, timed in (("forward", calls), ("both passes", passes)):
        found |= _medians(name, interleaved(timed, rounds), edges)
        found[name]["ratio"] = found[name]["fairchem"] / found[name]["equigeo"]
    return found


def crossover(lmax: int, channels: int, edges: int, rounds: int) -> dict[str, Any]:
    """Our two convolutions from and to all natural irreps, filters of degrees 0 to lmax."""
    graph, dtype = graph_of(edges), torch.float32
    inputs = operands(lmax, lmax, channels, graph, dtype)
    x, vectors = inputs[0], inputs[1]
    irreps = Irreps([(channels, (l, (-1) ** l)) for l in range(lmax + 1)])
    filters = Irreps([(1, ir) for _, ir in irreps.terms])
    product = tp.ChannelwiseConv(irreps, filters, filters)
    linear = enn.Linear(product.irreps_out, irreps)
    weights = torch.randn(edges, product.weight_numel, requires_grad=True)
    harmonics = tp.SphericalHarmonics(list(range(lmax + 1)), normalize=True)
    radial = torch.randn(edges, tp.SO2Conv(irreps, irreps, modulation="order").weight_numel)
    orders = {
        f"so2, mmax {m}": tp.SO2Conv(irreps, irreps, mmax=m, modulation="order")
        for m in sorted({2, lmax})
    }

    def channelwise() -> Tensor:
        return linear(product(x, graph, harmonics(vectors), weights))

    def by_orders(conv: tp.SO2Conv) -> Callable[[], Tensor]:
        scale = radial[:, : conv.weight_numel]
        return lambda: conv(x, graph, vectors, scale)

    def backward(call: Callable[[], Tensor]) -> Callable[[], Any]:
        return lambda: torch.autograd.grad(call().sum(), (x, vectors))

    calls = {"channelwise and Linear": channelwise}
    calls |= {name: by_orders(conv) for name, conv in orders.items()}
    found: dict[str, Any] = {"edges": edges, "lmax": lmax, "channels": channels}
    found |= _medians("forward", interleaved(calls, rounds), edges)
    slopes = {name: backward(call) for name, call in calls.items()}
    return found | _medians("both passes", interleaved(slopes, rounds), edges)


def _medians(name: str, seconds: dict[str, list[float]], edges: int) -> dict[str, Any]:
    """Microseconds per edge of each call, and what they are medians of."""
    middle = {way: 1e6 * median(values) / edges for way, values in seconds.items()}
    return {name: middle, f"{name}, seconds": seconds}


def peak_beside(way: str, lmax: int, mmax: int, channels: int, edges: int) -> int:
    """Bytes of resident memory that both passes need beside what goes in and comes out."""
    for number in (128, edges):  # the first loads everything
        graph = graph_of(number)
        make = {"equigeo": equigeo, "fairchem": fairchem}[way]
        convolve, module = make(lmax, mmax, channels, graph, torch.float32)
        inputs = operands(lmax, mmax, channels, graph, torch.float32)
        Path("/proc/self/clear_refs").write_text("5")
        before = _status("VmRSS")
        kept = both_passes(convolve, inputs, module)
    return _status("VmHWM") - before - sum(4 * x.numel() for x in kept)


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))


def memory(folder: Path, lmax: int, mmax: int, channels: int, edges: int) -> dict[str, Any]:
    found: dict[str, Any] = {"edges": edges, "lmax": lmax, "mmax": mmax, "channels": channels}
    for way in ("equigeo", "fairchem"):
        words = [way, *map(str, (lmax, mmax, channels, edges))]
        command = [sys.executable, "-m", "bench.so2_conv", "--fairchem", str(folder), "--peak"]
        found[way] = int(subprocess.check_output([*command, *words], text=True))
    found["ratio"] = found["equigeo"] / found["fairchem"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fairchem", type=Path, default=os.environ.get("FAIRCHEM"))
    output_arguments(parser)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--edges", type=int, nargs="+", default=[2048, 8192])
    parser.add_argument("--peak", nargs=5)
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if given.fairchem is not None:
        import_fairchem(Path(given.fairchem))
    if given.peak:
        sys.stdout.write(f"{peak_beside(given.peak[0], *map(int, given.peak[1:]))}\n")
        return
    record = Record(given.output)
    result: dict[str, Any] = {"unit": "microseconds of one thread per edge"}
    folder, rounds = given.fairchem, given.rounds
    if folder is not None:
        sizes = [
            (*orders, channels, edges)
            for edges in given.edges
            for orders in ORDERS
            for channels in CHANNELS
        ]
        result["fairchem-core 2.24.0"] = [_shown(compare(*size, rounds)) for size in sizes]
        result["bytes beside inputs, results and gradients"] = [
            _shown(memory(Path(folder), *size, edges))
            for edges in given.edges
            for size in ((2, 2, 32), (4, 2, 128))
        ]
    result["crossover"] = [_shown(crossover(lmax, 32, 2048, rounds)) for lmax in (2, 4, 6)]
    record.write(result)


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    sys.stdout.write(f"{json.dumps(row)}\n")
    sys.stdout.flush()
    return row


if __name__ == "__main__":
    main()

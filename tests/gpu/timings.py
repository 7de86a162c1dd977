"""Times of ops on a device beside their peers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor

from equigeo import tensor_products as tp
from equigeo.graphs import EdgeIndex
from equigeo.interop import to_e3nn
from equigeo.ops.runtime.declare import declared, reference_of

Call = Callable[[], Any]
Problem = tuple[dict[str, Callable[..., Tensor]], list[Tensor]]
"""What is compared, by name, and what all of it takes."""

IRREPS = ("128x0e + 128x1o + 128x2e", "0e + 1o + 2e + 3o", "0e + 1o + 2e + 3o")  # mace-large
NEIGHBOURS = 32
WARM_UP = 3  # calls: TorchScript, which e3nn uses, compiles in the first two
# Float32 sums in another order, of numbers of which the largest is one.
SAME = {"rtol": 1e-4, "atol": 1e-4}


def measure_ops(device: torch.device, edges: int, rounds: int) -> dict[str, Any]:
    """Median microseconds of each call, in float32, after a comparison of the results.

    Parameters
    ----------
    device : torch.device
        Where everything runs.
    edges : int
        Size of the problems.
    rounds : int
        Calls of each that are timed, in turn.

    Returns
    -------
    dict
        By problem and pass: ``"ours"``, and ``"e3nn"`` or ``"PyTorch"``, the reference
        implementation on the device.
    """
    found: dict[str, Any] = {}
    for name, make in PROBLEMS.items():
        calls, inputs = make(device, edges)
        agree([call(*inputs) for call in calls.values()])
        for kind, timed in passes(calls, inputs).items():
            seconds = in_turn(timed, device, rounds)
            found[f"{name}, {kind}"] = {key: round(1e6 * s, 2) for key, s in seconds.items()}
    return {"edges": edges, "rounds": rounds, "microseconds": found}


def channelwise_product(device: torch.device, edges: int) -> Problem:
    product = tp.ChannelwiseTensorProduct(*IRREPS).to(device)
    shapes = (product.irreps_in1.dim, product.irreps_in2.dim, product.weight_numel)
    return {"ours": product, "e3nn": to_e3nn(product)}, operands(
        [(edges, dim) for dim in shapes], device
    )


def channelwise_conv(device: torch.device, edges: int) -> Problem:
    conv, theirs = tp.ChannelwiseConv(*IRREPS), to_e3nn(tp.ChannelwiseTensorProduct(*IRREPS))
    conv, theirs = conv.to(device), theirs.to(device)
    index, graph = random_graph(device, edges)
    nodes = graph.num_targets

    def by_messages(x: Tensor, y: Tensor, w: Tensor) -> Tensor:
        messages = theirs(x.index_select(0, index[0]), y, w)
        return x.new_zeros(nodes, messages.shape[1]).index_add(0, index[1], messages)

    shapes = [(nodes, conv.irreps_in1.dim), (edges, conv.irreps_in2.dim)]
    shapes.append((edges, conv.weight_numel))
    calls = {"ours": lambda x, y, w: conv(x, graph, y, w), "e3nn": by_messages}
    return calls, operands(shapes, device)


def fully_connected_product(device: torch.device, edges: int) -> Problem:
    product = tp.FullyConnectedTensorProduct("16x0e + 16x1o", "0e + 1o", "16x0e + 16x1o")
    product = product.to(device)
    shapes = [(edges, product.irreps_in1.dim), (edges, product.irreps_in2.dim)]
    return {"ours": product, "e3nn": to_e3nn(product)}, operands(shapes, device)


def spherical_harmonics(device: torch.device, edges: int) -> Problem:
    ours = tp.SphericalHarmonics("0e + 1o + 2e + 3o", normalize=True).to(device)
    return {"ours": ours, "e3nn": to_e3nn(ours)}, operands([(edges, 3)], device)


def gather_sum(device: torch.device, edges: int) -> Problem:
    _, graph = random_graph(device, edges)
    rest = (graph.source, graph.ptr, graph.back_target, graph.back_ptr)
    return beside_reference("gather_sum", rest), operands([(graph.num_sources, 128)], device)


def segment_attention(device: torch.device, edges: int) -> Problem:
    _, graph = random_graph(device, edges)
    rest = (graph.source, graph.ptr, graph.target, graph.back_order, graph.back_ptr)
    calls = beside_reference("segment_attention", rest)
    firsts = {name: (lambda *x, call=call: call(*x)[0]) for name, call in calls.items()}
    return firsts, operands([(graph.num_sources, 4, 32), (edges, 4)], device)


PROBLEMS: dict[str, Callable[[torch.device, int], Problem]] = {
    "channelwise_product, mace-large": channelwise_product,
    "channelwise_conv, mace-large": channelwise_conv,
    "fully_connected_product, 16x0e + 16x1o": fully_connected_product,
    "spherical_harmonics, degrees 0 to 3": spherical_harmonics,
    "gather_sum, 128 channels": gather_sum,
    "segment_attention, 4 heads of 32": segment_attention,
}


def beside_reference(op: str, rest: tuple[Tensor, ...]) -> dict[str, Callable[..., Any]]:
    return {
        name: lambda *x, call=call: call(*x, *rest)
        for name, call in (("ours", declared(op)), ("PyTorch", reference_of(op)))
    }


def random_graph(
    device: torch.device, edges: int, nodes: int | None = None
) -> tuple[Tensor, EdgeIndex]:
    nodes = nodes or max(2, edges // NEIGHBOURS)
    index = torch.randint(nodes, (2, edges), generator=torch.Generator().manual_seed(0))
    index = index.to(device)
    return index, EdgeIndex.from_edges(index, nodes, nodes)


def operands(shapes: Sequence[tuple[int, ...]], device: torch.device) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    drawn = (torch.randn(shape, generator=generator) for shape in shapes)
    return [x.to(device).requires_grad_() for x in drawn]


def agree(results: list[Tensor]) -> None:
    """Refuse to time what computes something else."""
    want = results[-1].detach()
    size = float(want.abs().max())
    for found in results[:-1]:
        torch.testing.assert_close(found.detach() / size, want / size, **SAME)


def passes(
    calls: dict[str, Callable[..., Tensor]], inputs: list[Tensor]
) -> dict[str, dict[str, Call]]:
    """The forward pass without a graph, and both passes."""

    def forward(call: Callable[..., Tensor]) -> Tensor:
        with torch.no_grad():
            return call(*inputs)

    def both(call: Callable[..., Tensor]) -> Any:
        result = call(*inputs)
        return torch.autograd.grad(result, inputs, torch.ones_like(result))

    return {
        kind.__name__: {name: partial(kind, call) for name, call in calls.items()}
        for kind in (forward, both)
    }


def in_turn(calls: dict[str, Call], device: torch.device, rounds: int) -> dict[str, float]:
    """Median seconds of each call; the device is waited for."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(WARM_UP + rounds):
        for name, call in calls.items():
            wait(device)
            start = time.perf_counter()
            call()
            wait(device)
            seconds[name].append(time.perf_counter() - start)
    return {name: median(values[WARM_UP:]) for name, values in seconds.items()}


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)

"""Convolutions by attention on the dual graphs of meshes, beside what they were made of before.

``separate`` maps features by PyTorch's matrix product, attends to them by ``segment_attention``,
and adds the term of the targets by another product; ``geometric`` does the same with the softmax
and the scatter of PyTorch Geometric. Run with ``make bench``.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from bench.bench_segment_attention import dual_graph, geometric, op
from equigeo.graphs import EdgeIndex
from equigeo.ops import kernels_info
from equigeo.testing import tolerance

# PyTorch Geometric still scripts at import.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")

Convolve = Callable[[EdgeIndex, Tensor, Tensor, Tensor, Tensor], Tensor]
Attend = Callable[[Tensor, Tensor, EdgeIndex], Tensor]


def fused(edges: EdgeIndex, x: Tensor, logits: Tensor, weight: Tensor, own: Tensor) -> Tensor:
    return edges.attend_linear(x, logits, weight, own)[0]


def mapped_first(attend: Attend) -> Convolve:
    def convolve(
        edges: EdgeIndex, x: Tensor, logits: Tensor, weight: Tensor, own: Tensor
    ) -> Tensor:
        values = (x @ weight.mT).unflatten(1, (logits.shape[1], -1))
        return torch.addmm(attend(values, logits, edges).flatten(1), x, own.mT)

    return convolve


CONVOLUTIONS = {
    "fused": fused,
    "separate": mapped_first(op),
    "geometric": mapped_first(geometric),
}


def backward(convolve: Convolve, edges: EdgeIndex, inputs: list[Tensor]) -> list[Tensor]:
    out = convolve(edges, *inputs)
    return [out, *torch.autograd.grad(out, inputs, torch.ones_like(out))]


@pytest.mark.parametrize("threads", [1, 2], ids=["1 thread", "2 threads"])
@pytest.mark.parametrize("passes", ["forward", "forward and backward"])
@pytest.mark.parametrize(
    ("nodes", "heads", "channels"), [(12_000, 1, 32), (12_000, 3, 64), (150_000, 1, 32)]
)
@pytest.mark.parametrize("convolve", list(CONVOLUTIONS))
def bench_attention_conv(benchmark, convolve, nodes, heads, channels, passes, threads):
    edges = dual_graph(nodes)
    generator = torch.Generator().manual_seed(0)
    shapes = [(nodes, channels), (edges.num_edges, heads), *[(heads * channels, channels)] * 2]
    drawn = [torch.randn(shape, generator=generator) for shape in shapes]
    inputs = [x.requires_grad_() for x in (*drawn[:2], *(w / channels**0.5 for w in drawn[2:]))]
    torch.set_num_threads(threads)

    wide = [x.detach().double().requires_grad_() for x in inputs]
    exact = backward(CONVOLUTIONS["separate"], edges, wide)
    results = backward(CONVOLUTIONS[convolve], edges, inputs)
    for got, want in zip(results, exact, strict=True):
        scale = max(1.0, float(want.detach().abs().max()))  # sums over all nodes are large
        bound = tolerance(torch.float32, 8 * channels)
        assert_close(got.double() / scale, want / scale, **bound)

    benchmark.extra_info.update(
        edges=edges.num_edges,
        heads=heads,
        channels=channels,
        threads=threads,
        isa=kernels_info()["isa"],
        torch=torch.__version__,
    )
    if passes == "forward":
        with torch.no_grad():
            benchmark(CONVOLUTIONS[convolve], edges, *inputs)
    else:
        benchmark(backward, CONVOLUTIONS[convolve], edges, inputs)

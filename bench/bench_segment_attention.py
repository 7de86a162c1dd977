"""Segmented attention on the dual graphs of meshes, beside the reference and PyTorch Geometric.

Run with ``make bench``.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from equigeo.graphs import EdgeIndex
from equigeo.ops import kernels_info, segment_attention
from equigeo.ops.edges.segment_attention import segment_attention_reference
from equigeo.testing import tolerance

# PyTorch Geometric still scripts at import.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")

Attend = Callable[[Tensor, Tensor, EdgeIndex], Tensor]


def graph_arguments(edges: EdgeIndex) -> tuple[Tensor, ...]:
    return edges.source, edges.ptr, edges.target, edges.back_order, edges.back_ptr


def op(values: Tensor, logits: Tensor, edges: EdgeIndex) -> Tensor:
    return segment_attention(values, logits, *graph_arguments(edges))[0]


def reference(values: Tensor, logits: Tensor, edges: EdgeIndex) -> Tensor:
    return segment_attention_reference(values, logits, *graph_arguments(edges))[0]


def geometric(values: Tensor, logits: Tensor, edges: EdgeIndex) -> Tensor:
    """As ``torch_geometric.nn.GATConv`` does, told that the edges are sorted."""
    from torch_geometric.utils import scatter, softmax

    weights = softmax(logits, edges.target, ptr=edges.ptr, num_nodes=edges.num_targets)
    messages = weights[:, :, None] * values.index_select(0, edges.source)
    return scatter(messages, edges.target, dim=0, dim_size=edges.num_targets, reduce="sum")


def dual_graph(nodes: int) -> EdgeIndex:
    """Four neighbors a node, most of them near by, as on the dual graph of a mesh."""
    target = torch.arange(nodes).repeat_interleave(4)
    generator = torch.Generator().manual_seed(nodes)
    step = torch.randint(1, 200, (len(target),), generator=generator)
    return EdgeIndex.from_edges(torch.stack([(target + step) % nodes, target]), nodes, nodes)


def backward(attend: Attend, values: Tensor, logits: Tensor, edges: EdgeIndex) -> list[Tensor]:
    out = attend(values, logits, edges)
    return [out, *torch.autograd.grad(out, (values, logits), torch.ones_like(out))]


@pytest.mark.parametrize("threads", [1, 2], ids=["1 thread", "2 threads"])
@pytest.mark.parametrize("passes", ["forward", "forward and backward"])
@pytest.mark.parametrize(
    ("nodes", "heads", "channels"),
    [(12_000, 1, 32), (12_000, 3, 64), (150_000, 1, 32), (150_000, 3, 64)],
)
@pytest.mark.parametrize("attend", [op, reference, geometric], ids=lambda f: f.__name__)
def bench_segment_attention(benchmark, attend, nodes, heads, channels, passes, threads):
    edges = dual_graph(nodes)
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(nodes, heads, channels, generator=generator).requires_grad_()
    logits = torch.randn(edges.num_edges, heads, generator=generator).requires_grad_()
    torch.set_num_threads(threads)

    exact = backward(reference, values.double(), logits.double(), edges)
    results = backward(attend, values, logits, edges)
    for got, want in zip(results, exact, strict=True):
        assert_close(got.double(), want, **tolerance(torch.float32, 4 * channels))

    benchmark.extra_info.update(
        edges=edges.num_edges,
        heads=heads,
        channels=channels,
        dtype=str(values.dtype),
        threads=threads,
        isa=kernels_info()["isa"],
        torch=torch.__version__,
    )
    if passes == "forward":
        with torch.no_grad():
            benchmark(attend, values, logits, edges)
    else:
        benchmark(backward, attend, values, logits, edges)

"""A block of the decoder: what it joins, and what it does without a pooling."""

import torch

from equigeo.mesh import EdgePool, PrimalDualGraph
from equigeo.mesh.models.up_block import UpBlock
from tests.mesh import shapes


def _pooled(channels=4):
    torch.manual_seed(0)
    graph = PrimalDualGraph.from_mesh(shapes.lumpy(shapes.icosphere(1), seed=3))
    skip = torch.randn(graph.num_primal, 3), torch.randn(graph.num_dual, 3)
    graph = graph.with_features(
        torch.randn(graph.num_primal, channels), torch.randn(graph.num_dual, channels)
    )
    pooled, log = EdgePool(0.5)(graph, torch.rand(graph.primal.num_edges, 1))
    return graph, pooled, log, skip


def test_it_gives_the_graph_before_the_pooling():
    graph, pooled, log, skip = _pooled()
    out = UpBlock(4, 3, 5)(pooled, log, skip)
    assert out.x_primal.shape == (graph.num_primal, 5)
    assert out.x_dual.shape == (graph.num_dual, 5)
    assert torch.equal(out.undirected, graph.undirected)
    assert pooled.num_primal < graph.num_primal


def test_skips_the_fill_and_the_features_below_all_decide():
    _, pooled, log, skip = _pooled()
    block = UpBlock(4, 3, 5).eval()
    with torch.no_grad():
        whole = block(pooled, log, skip).x_primal
        assert not torch.equal(whole, block(pooled, log, (skip[0] + 1, skip[1])).x_primal)
        assert not torch.equal(whole, block(pooled, log, (skip[0], skip[1] + 1)).x_primal)
        below = pooled.with_features(pooled.x_primal + 1, pooled.x_dual)
        assert not torch.equal(whole, block(below, log, skip).x_primal)
        assert int((log.dual_to_new < 0).sum()) > 0
        block.fill += 1
        assert not torch.equal(whole, block(pooled, log, skip).x_primal)


def test_without_a_pooling_the_graph_stays():
    graph, _, _, skip = _pooled()
    out = UpBlock(4, 3, 5)(graph, None, skip)
    assert torch.equal(out.undirected, graph.undirected)

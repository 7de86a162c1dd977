import pytest
import torch
from torch.testing import assert_close

from bench.large_mesh import torus
from equigeo.mesh import DualKind, PrimalDualGraph, ResidualBlock, patches
from equigeo.testing import tolerance
from tests.wrong_inputs import refused

FLOAT64 = tolerance(torch.float64, 2000)


def torus_graph(kind: DualKind = DualKind.SINGLE, side: int = 16) -> PrimalDualGraph:
    return PrimalDualGraph.from_mesh(torus(side), kind, dtype=torch.float64)


def two_blocks(graph: PrimalDualGraph) -> torch.nn.ModuleList:
    """Four convolutions."""
    channels = graph.x_primal.shape[1], graph.x_dual.shape[1]
    first = ResidualBlock(channels, (4, 5), self_term=True, coupling=True)
    return torch.nn.ModuleList([first, ResidualBlock((4, 5), (3, 6), heads=2)]).double().eval()


def apply(blocks: torch.nn.ModuleList, graph: PrimalDualGraph) -> PrimalDualGraph:
    for block in blocks:
        graph, _ = block(graph, graph.x_primal, graph.x_dual)
    return graph


@pytest.mark.parametrize("kind", list(DualKind))
def test_results_inside_are_those_of_the_whole_with_enough_rings(kind):
    graph = torus_graph(kind)
    blocks = two_blocks(graph)
    whole = apply(blocks, graph)
    for rings in (5, 3):
        primal = torch.full_like(whole.x_primal, torch.nan)
        dual = torch.full_like(whole.x_dual, torch.nan)
        parts = [*patches(graph, max_faces=150, rings=rings)]
        for patch in parts:
            assert patch.inside.sum() <= 150
            assert patch.graph.num_primal < graph.num_primal
            part = apply(blocks, patch.graph)
            primal[patch.primal[patch.inside]] = part.x_primal[patch.inside]
            dual[patch.dual[patch.inside_dual]] = part.x_dual[patch.inside_dual]
        assert len(parts) == 4
        if rings == 5:
            assert_close((primal, dual), (whole.x_primal, whole.x_dual), **FLOAT64)
        else:
            assert float((primal - whole.x_primal).detach().abs().max()) > 1e-6


@pytest.mark.parametrize("kind", list(DualKind))
def test_every_node_is_inside_one_patch_and_keeps_its_mesh_and_area(kind):
    graph = PrimalDualGraph.batch([torus_graph(kind, 4), torus_graph(kind, 3)])
    seen_primal, seen_dual = [], []
    for patch in patches(graph, max_faces=7, rings=1):
        assert torch.equal(patch.graph.primal_batch, graph.primal_batch[patch.primal])
        assert torch.equal(patch.graph.dual_batch, graph.dual_batch[patch.dual])
        assert torch.equal(patch.graph.shares.dual, graph.shares.dual[patch.dual])
        seen_primal.append(patch.primal[patch.inside])
        seen_dual.append(patch.dual[patch.inside_dual])
    assert torch.equal(torch.cat(seen_primal).sort().values, torch.arange(graph.num_primal))
    assert torch.equal(torch.cat(seen_dual).sort().values, torch.arange(graph.num_dual))


def test_a_graph_that_fits_is_one_patch_and_one_without_faces_none():
    graph = torus_graph(side=4)
    (patch,) = patches(graph, max_faces=1000, rings=2)
    assert torch.equal(patch.graph.dual_edges.edge_index, graph.dual_edges.edge_index)
    assert torch.equal(patch.graph.x_dual, graph.x_dual)
    nothing = torch.zeros(0, dtype=torch.int64)
    empty = PrimalDualGraph.from_adjacency(nothing.view(0, 2), DualKind.SINGLE, nothing, 0)
    assert not [*patches(empty, 5, 1)]


@pytest.mark.parametrize(("faces", "rings"), [(0, 1), (5, -1)])
def test_no_faces_or_graph_and_negative_rings_are_refused(faces, rings):
    with pytest.raises(ValueError, match="max_faces must be positive and rings not negative"):
        next(patches(torus_graph(side=3), faces, rings))
    refused("PrimalDualGraph", next, patches(torus(3), 5, 1), error=TypeError)

"""Dual graphs of the three kinds: their definition, their counts, their numbering."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equigeo.mesh import DualKind
from equigeo.mesh.geometry import dual_graph
from equigeo.mesh.geometry.dual_graph import dual_edges, edge_to_dual, primal_edges
from tests.mesh import shapes
from tests.mesh.definitions import (
    directed_names,
    dual_links,
    dual_nodes,
    edge_names,
    graph_of,
    shared_edges,
)

KINDS = list(DualKind)
COUNTS = [
    (shapes.tetrahedron(), 12, (6, 12), (24, 48, 24)),
    (shapes.octahedron(), 24, (12, 24), (48, 96, 48)),
    (shapes.cube(), 36, (18, 36), (72, 144, 72)),
    (shapes.icosahedron(), 60, (30, 60), (120, 240, 120)),
    (shapes.icosphere(1), 240, (120, 240), (480, 960, 480)),
    (shapes.torus(), 576, (288, 576), (1152, 2304, 1152)),
    (shapes.random_hull(1, 252), 1500, (750, 1500), (3000, 6000, 3000)),
    (shapes.strip(), 18, (9, 18), (24, 48, 24)),
    (shapes.closed_strip(), 42, (21, 42), (84, 168, 84)),
    (shapes.two_faces(1.0), 2, (1, 2), (0, 0, 0)),
    (shapes.triangle(), 0, (0, 0), (0, 0, 0)),
]


def test_counts_of_the_listed_meshes():
    for shape, primal, nodes, links in COUNTS:
        for kind, count in zip(KINDS, links, strict=True):
            graph = graph_of(shape, kind)
            assert graph.num_primal == shape.num_faces
            assert graph.primal.num_edges == primal
            assert graph.num_dual == nodes[kind is not DualKind.SINGLE]
            assert graph.dual_edges.num_edges == count


@given(st.sampled_from(KINDS), shapes.meshes())
def test_links_are_those_of_the_definition(kind, shape):
    graph = graph_of(shape, kind)
    names = edge_names(graph)
    assert names == sorted(shared_edges(shape))
    links = [tuple(row) for row in graph.dual_edges.edge_index.T.tolist()]
    assert len(links) == len(set(links))
    assert set(links) == dual_links(kind, names)


@given(st.sampled_from(KINDS), shapes.meshes())
def test_a_message_from_j_to_i_is_weighed_by_the_pair_or_by_the_node_j_to_i(kind, shape):
    graph = graph_of(shape, kind)
    names = dual_nodes(kind, edge_names(graph))
    directed = directed_names(graph)
    assert sorted(directed) == sorted(
        (a, b) for i, j in edge_names(graph) for a, b in ((i, j), (j, i))
    )
    for (source, target), node, u in zip(
        directed, graph.edge_to_dual.tolist(), graph.to_undirected.tolist(), strict=True
    ):
        name = tuple(sorted((source, target)))
        assert names[node] == (name if kind is DualKind.SINGLE else (source, target))
        assert edge_names(graph)[u] == name


@pytest.mark.parametrize("kind", KINDS)
def test_a_hub_is_linked_all_around(kind):
    spokes = [(0, leaf) for leaf in range(1, 9)]
    undirected = torch.tensor(spokes)
    edges, to_undirected = primal_edges(undirected, 9)
    to_dual = edge_to_dual(kind, edges, to_undirected)
    links = dual_edges(kind, edges, to_dual, undirected).edge_index.T.tolist()
    assert sorted(map(tuple, links)) == sorted(dual_links(kind, spokes))


@pytest.mark.parametrize("kind", KINDS)
def test_giants_get_the_links_that_small_meshes_get(kind, monkeypatch):
    few = graph_of(shapes.bowl(), kind).dual_edges
    monkeypatch.setattr(dual_graph, "_FITS", 0)  # as if no number fitted into 32 bits
    giant = graph_of(shapes.bowl(), kind).dual_edges
    for edges in (few, giant):
        assert edges.edge_index.dtype == torch.int64
    assert torch.equal(giant.edge_index, few.edge_index)

"""Graphs of meshes and of batches: nothing leaks between meshes, numbering permutes nodes."""

import copy
import itertools
import time
from dataclasses import replace
from functools import partial
from itertools import product

import pytest
import torch
from hypothesis import given

from bench.rows.mesh import torus
from equigeo.mesh import (
    DualKind,
    PrimalDualGraph,
    PrimalDualSegmenter,
    ResidualBlock,
    TriangleMesh,
    patches,
    simplify,
    subdivide,
)
from equigeo.mesh.geometry import dual_graph
from equigeo.mesh.geometry.dual_graph import dual_edges, edge_to_dual, primal_edges
from equigeo.mesh.subdivide import with_resolution
from tests.draws import generator
from tests.mesh import shapes
from tests.mesh.definitions import (
    F64,
    assert_close,
    count_calls,
    directed_names,
    dual_links,
    dual_nodes,
    edge_names,
    graph_of,
    shared_edges,
)
from tests.wrong_inputs import refused

KINDS = list(DualKind)
INDICES = ("undirected", "to_undirected", "edge_to_dual", "primal_batch", "dual_batch")


def _assert_same(left, right):
    """Equal in every bit."""
    for name in ("x_primal", "x_dual", *INDICES):
        assert torch.equal(getattr(left, name), getattr(right, name)), name
    for name in ("primal", "dual_edges"):
        for index in ("edge_index", "source", "target", "ptr", "back_order", "back_ptr"):
            ours, theirs = (getattr(getattr(g, name), index) for g in (left, right))
            assert torch.equal(ours, theirs), (name, index)
    for name in ("num_graphs", "dual", "features"):
        assert getattr(left, name) == getattr(right, name), name


def _parts(dual=DualKind.SINGLE, features="reference"):
    several = (shapes.bowl(), shapes.triangle(), shapes.pillow(), shapes.cube())
    return [graph_of(shape, dual, features) for shape in (*several, shapes.two_isolated())]


@pytest.mark.parametrize("dual", KINDS)
def test_a_batch_is_the_block_diagonal_union(dual):
    parts = _parts(dual)
    batch = PrimalDualGraph.batch(parts)
    assert batch.num_graphs == len(parts)
    assert batch.num_primal == sum(part.num_primal for part in parts)
    primal = dual_start = edge = 0
    for number, part in enumerate(parts):
        nodes = slice(primal, primal + part.num_primal)
        duals = slice(dual_start, dual_start + part.num_dual)
        edges = slice(edge, edge + part.primal.num_edges)
        assert torch.equal(batch.x_primal[nodes], part.x_primal)
        assert torch.equal(batch.x_dual[duals], part.x_dual)
        assert bool((batch.primal_batch[nodes] == number).all())
        assert bool((batch.dual_batch[duals] == number).all())
        assert torch.equal(batch.primal.edge_index[:, edges], part.primal.edge_index + primal)
        assert torch.equal(batch.edge_to_dual[edges], part.edge_to_dual + dual_start)
        primal, dual_start, edge = nodes.stop, duals.stop, edges.stop
    rebuilt = PrimalDualGraph.from_adjacency(
        batch.undirected, dual, batch.primal_batch, batch.num_graphs, features="reference"
    ).with_features(batch.x_primal, batch.x_dual)
    _assert_same(batch, rebuilt)


def test_batching_is_associative_among_graphs_of_one_kind():
    first, *rest = _parts()
    nested = PrimalDualGraph.batch([PrimalDualGraph.batch(rest[:2]), *rest[2:]])
    _assert_same(PrimalDualGraph.batch([first, nested]), PrimalDualGraph.batch([first, *rest]))
    _assert_same(PrimalDualGraph.batch([first]), first)
    single, double = graph_of(shapes.cube()), graph_of(shapes.cube(), DualKind.DOUBLE_DIRECTED)
    for other in (double, graph_of(shapes.cube(), features="invariant")):
        refused("same dual kind and features", PrimalDualGraph.batch, [single, other])
    refused("at least one graph", PrimalDualGraph.batch, [])


def test_jitter_of_scale_zero_changes_nothing_and_a_generator_repeats_it():
    for features, dual in itertools.product(["reference", "invariant"], KINDS):
        batch = PrimalDualGraph.batch(_parts(dual, features))
        _assert_same(batch.jitter(0.0, generator(0)), batch)
    graph = graph_of(shapes.bowl())
    first, again, other = (graph.jitter(0.05, generator(seed)) for seed in (1, 1, 2))
    _assert_same(first, again)
    assert not torch.equal(first.x_dual, graph.x_dual)
    assert not torch.equal(first.x_dual, other.x_dual)
    assert torch.equal(first.undirected, graph.undirected)
    assert first.x_dual.dtype == graph.x_dual.dtype


@pytest.mark.parametrize("features", ["invariant", "reference", "multiscale"])
def test_noise_reaches_the_features(features):
    graph = PrimalDualGraph.from_mesh(shapes.icosphere(1), features=features)
    for noise in ({"jitter": 0.05}, {"stretch": 0.2}):
        moved = graph.deform(**noise, generator=generator(0))
        assert not torch.equal(moved.x_primal, graph.x_primal), noise
        assert not torch.equal(moved.x_dual, graph.x_dual), noise


def test_jitter_is_measured_in_edge_lengths_of_each_mesh():
    small = shapes.bowl()
    graphs = [graph_of(shape) for shape in (small, shapes.scaled(small, 1000.0))]
    one, other = (graph.jitter(0.05, generator(0)) for graph in graphs)
    assert_close(other.x_dual, one.x_dual, terms=64, condition=10)
    batch = PrimalDualGraph.batch(graphs)
    moved = batch.jitter(0.05, generator(0))
    step = torch.linalg.vector_norm(moved.surface.vertices - batch.surface.vertices, dim=1)
    corner = small.vertices[small.faces]
    edge = float(torch.linalg.vector_norm(corner - corner.roll(-1, dims=1), dim=-1).mean())
    for part, unit in zip(step.split(small.num_vertices), (edge, 1000 * edge), strict=True):
        # root mean square of 486 normal deviates: four standard errors are 13 %
        assert abs(float(part.square().mean().sqrt()) / (unit * 0.05 * 3**0.5) - 1) < 0.13


def test_features_are_measured_in_float64_cast_and_moved():
    shape = shapes.scaled(shapes.moved(shapes.bowl(), (1e3, 0, 0)), 1e-8)
    narrow = PrimalDualGraph.from_mesh(shape, features="reference", dtype=torch.float32)
    assert narrow.x_primal.dtype == narrow.x_dual.dtype == torch.float32
    assert torch.equal(narrow.x_dual, graph_of(shape).x_dual.float())
    assert PrimalDualGraph.from_mesh(shape).x_dual.dtype == torch.get_default_dtype()
    assert PrimalDualGraph.from_mesh(shapes.cube()).features == "invariant"
    assert PrimalDualGraph.from_mesh(shapes.cube()).dual is DualKind.SINGLE
    graph = graph_of(shapes.bowl())
    _assert_same(graph.to("cpu"), graph)
    narrow = graph.to(torch.float32)
    assert narrow.x_primal.dtype == narrow.x_dual.dtype == torch.float32
    for name in INDICES:
        assert torch.equal(getattr(narrow, name), getattr(graph, name))
        assert getattr(narrow, name).dtype == torch.int64
    assert narrow.primal.ptr.dtype == torch.int64


def test_features_have_one_row_per_node_also_without_faces():
    graph = graph_of(shapes.cube())
    refused("12 and 18 rows, got 12 and 17", graph.with_features, graph.x_primal, graph.x_dual[1:])
    replaced = graph.with_features(graph.x_primal + 1, graph.x_dual)
    assert torch.equal(replaced.x_primal, graph.x_primal + 1)
    assert replaced is not graph
    empty = shapes.mesh(torch.zeros(3, 3), [])
    for dual in KINDS:
        graph = graph_of(empty, dual, "invariant")
        assert (graph.num_primal, graph.num_dual, graph.num_graphs) == (0, 0, 1)
        batch = PrimalDualGraph.batch([graph, graph_of(shapes.cube(), dual, "invariant"), graph])
        assert batch.num_graphs == 3
        assert bool((batch.primal_batch == 1).all())
    cube = shapes.cube()
    vertices = torch.cat((cube.vertices, torch.full((3, 3), 9.0, dtype=F64)))
    _assert_same(graph_of(shapes.mesh(vertices, cube.faces)), graph_of(cube))


def test_the_number_of_calls_does_not_grow_with_the_mesh():
    # From 10,000 edges on, they are counted by SciPy.
    for subdivisions, dual in product(((1, 3), (4, 5)), KINDS):
        small, large = (shapes.icosphere(n) for n in subdivisions)
        graph_of(large, dual, "invariant")
        calls = [count_calls(partial(graph_of, s, dual, "invariant")) for s in (small, large)]
        assert calls[1] < 1.5 * calls[0]  # rounds of labels grow slowly


@pytest.mark.full
def test_eighty_thousand_faces_build_within_ten_seconds():
    PrimalDualGraph.from_mesh(shapes.icosphere(1))  # what is loaded once
    shape = shapes.icosphere(6)
    assert shape.num_faces == 81_920
    start = time.process_time()
    graph = PrimalDualGraph.from_mesh(shape)
    assert time.process_time() - start < 10  # of processor time, usually 0.5
    assert graph.dual_edges.num_edges == 6 * shape.num_faces


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


def test_counts_and_order_of_edges_are_those_listed():
    for shape, primal, nodes, links in COUNTS:
        for kind, count in zip(KINDS, links, strict=True):
            graph = graph_of(shape, kind)
            assert graph.num_primal == shape.num_faces
            assert graph.primal.num_edges == primal
            assert graph.num_dual == nodes[kind is not DualKind.SINGLE]
            assert graph.dual_edges.num_edges == count
    graph = graph_of(shapes.closed_strip())
    assert edge_names(graph) == shapes.CLOSED_STRIP_EDGES
    both = [(a, b) for i, j in shapes.CLOSED_STRIP_EDGES for a, b in ((i, j), (j, i))]
    assert directed_names(graph) == sorted(both, key=lambda edge: edge[::-1])


@given(shapes.kinds, shapes.meshes())
def test_links_and_weights_of_messages_are_those_of_the_definition(kind, shape):
    graph = graph_of(shape, kind)
    names = edge_names(graph)
    assert names == sorted(shared_edges(shape))
    links = [tuple(row) for row in graph.dual_edges.edge_index.T.tolist()]
    assert len(links) == len(set(links))
    assert set(links) == dual_links(kind, names)
    graph = graph_of(shape, kind)
    edges, directed = edge_names(graph), directed_names(graph)
    names = dual_nodes(kind, edges)
    assert sorted(directed) == sorted((a, b) for i, j in edges for a, b in ((i, j), (j, i)))
    numbers = zip(graph.edge_to_dual.tolist(), graph.to_undirected.tolist(), strict=True)
    for pair, (node, u) in zip(directed, numbers, strict=True):
        name = tuple(sorted(pair))
        assert names[node] == (name if kind is DualKind.SINGLE else pair)
        assert edges[u] == name


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


@pytest.mark.parametrize("kind", KINDS)
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
            assert_close(primal, whole.x_primal, terms=2000)
            assert_close(dual, whole.x_dual, terms=2000)
        else:
            assert float((primal - whole.x_primal).detach().abs().max()) > 1e-6


@pytest.mark.parametrize("kind", KINDS)
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


def test_patches_of_small_and_empty_graphs_and_wrong_sizes():
    graph = torus_graph(side=4)
    (patch,) = patches(graph, max_faces=1000, rings=2)
    assert torch.equal(patch.graph.dual_edges.edge_index, graph.dual_edges.edge_index)
    assert torch.equal(patch.graph.x_dual, graph.x_dual)
    nothing = torch.zeros(0, dtype=torch.int64)
    empty = PrimalDualGraph.from_adjacency(nothing.view(0, 2), DualKind.SINGLE, nothing, 0)
    assert not [*patches(empty, 5, 1)]
    for faces, rings in ((0, 1), (5, -1)):
        wrong = patches(torus_graph(side=3), faces, rings)
        refused("max_faces must be positive and rings not negative", next, wrong)
    refused("PrimalDualGraph", next, patches(torus(3), 5, 1), error=TypeError)


VECTOR = ("vx", "vy", "vz")


def with_inputs(shape: TriangleMesh) -> TriangleMesh:
    drawn = torch.randn(4, shape.num_faces, generator=torch.Generator().manual_seed(0))
    return replace(shape, inputs=dict(zip(("heat", *VECTOR), drawn, strict=True)))


@pytest.mark.parametrize("determinant", [1, -1])
def test_inputs_are_invariant_and_vectors_turn_with_the_mesh(determinant):
    shape = with_inputs(shapes.lumpy(shapes.icosphere(1)))
    torch.manual_seed(0)
    model = PrimalDualSegmenter.preset("default", 2, inputs=("heat", *VECTOR), sizes=("area",))
    model.double().eval()
    turn = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64))[0]
    turn = turn * (determinant * torch.linalg.det(turn)).sign()
    moved = shape.act(turn)
    found = torch.stack([moved.inputs[name] for name in VECTOR], dim=1)
    before = torch.stack([shape.inputs[name] for name in VECTOR], dim=1)
    torch.testing.assert_close(found, before @ turn.mT)
    torch.testing.assert_close(torch.stack([*shape.act(3 * turn).inputs.values()])[1:].T, found)
    graph = model.graph(shape)
    normal = torch.linalg.cross(
        *(graph.surface.vertices[graph.surface.faces].diff(dim=1).unbind(1))
    )
    cosine = (torch.nn.functional.normalize(normal) * before).sum(dim=1)
    expected = torch.stack([shape.inputs["heat"], cosine, before.norm(dim=1)], dim=1)
    torch.testing.assert_close(graph.x_primal[:, -4:-1], expected)  # the last is the size
    torch.testing.assert_close(graph.x_dual[:, -3:], expected[graph.undirected].mean(dim=1))
    with torch.no_grad():
        torch.testing.assert_close(model(moved), model(shape))
        still = replace(moved, inputs=shape.inputs)
        assert (model(still) - model(shape)).abs().max() > 1e-3  # about 0.1


def test_inputs_follow_every_change_of_a_mesh():
    shape = with_inputs(shapes.lumpy(shapes.icosphere(1)))
    assert torch.equal(subdivide(shape).inputs["heat"], shape.inputs["heat"].repeat_interleave(4))
    copies = copy.deepcopy(shape)
    assert torch.equal(copies.inputs["vx"], shape.inputs["vx"])
    graph = PrimalDualGraph.from_mesh(shape, inputs=("heat",))
    both = PrimalDualGraph.batch([graph, graph]).to("cpu")
    noisy = both.deform(jitter=0.1, stretch=0.1, generator=torch.Generator().manual_seed(0))
    assert torch.equal(noisy.x_primal[:, -1].reshape(2, -1)[1], shape.inputs["heat"].float())
    parts = [*patches(graph, max_faces=30, rings=1)]
    assert all(part.graph.kind == graph.kind for part in parts)
    with pytest.raises(
        ValueError, match="the mesh has no input 'mass', but heat, vx, vy, vz; load"
    ):
        PrimalDualGraph.from_mesh(shape, inputs=("heat", "mass"))
    model = PrimalDualSegmenter.preset("default", 2, inputs=("heat",))
    with pytest.raises(ValueError, match="the mesh has no input 'heat', but none"):
        model(replace(shape, inputs={}))
    assert torch.equal(with_resolution(shape, 1.0).inputs["heat"], shape.inputs["heat"])
    coarse, origin = simplify(shape, 40, return_origin=True)
    assert torch.equal(coarse.inputs["vx"], shape.inputs["vx"][origin])
    for names in (("vx",), ("heat", "vx", "vz")):
        with pytest.raises(ValueError, match=r"input 'vx' is a component.*the vector vx, vy, vz"):
            PrimalDualGraph.from_mesh(shape, inputs=names)
    with pytest.raises(ValueError, match=r"input 'heat' must be finite \(80,\), got \(3,\)"):
        replace(shape, inputs={"heat": torch.zeros(3)})
    with pytest.raises(ValueError, match=r"input 'heat' must be finite"):
        replace(shape, inputs={"heat": torch.full((80,), torch.inf)})
    with pytest.raises(ValueError, match="inputs must have different names"):
        PrimalDualSegmenter.preset("default", 2, inputs=("heat", "heat"))

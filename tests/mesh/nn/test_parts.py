from collections import defaultdict

import pytest
import torch
import trimesh
from hypothesis import given
from hypothesis import strategies as st

from equigeo.mesh import (
    DualKind,
    EdgePool,
    PrimalDualClassifier,
    PrimalDualConv,
    PrimalDualGraph,
    PrimalDualSegmenter,
    TriangleMesh,
)
from equigeo.mesh.geometry.orient import Surface
from equigeo.mesh.nn.mesh_model import (
    adjacency_means,
    edge_faces,
    face_to_element_means,
    received_attention,
)
from equigeo.mesh.nn.norm import Standardize
from equigeo.mesh.nn.readout import Readout, _Groups, group_mean
from equigeo.mesh.nn.residual_block import UpBlock
from tests.mesh import shapes
from tests.mesh.definitions import F64, assert_close, chiral, random_graph
from tests.wrong_inputs import refused


def _features(seed=0, sizes=(5, 0, 40)):
    generator = torch.Generator().manual_seed(seed)
    draw = [torch.randn(n, 3, dtype=F64, generator=generator) for n in sizes]
    return [x * torch.tensor([1.0, 10.0, 0.1]) + torch.tensor([0.0, 5.0, -3.0]) for x in draw]


def test_standardize_applies_the_numbers_of_the_training_set_and_stores_them():
    standardize = Standardize(3).double()
    assert torch.equal(standardize(_features()[0]), _features()[0])  # before it is fitted
    standardize.fit(_features())
    stacked, other = torch.cat(_features()), torch.cat(_features(seed=1))
    expected = (other - stacked.mean(dim=0)) / stacked.std(dim=0)
    assert_close(standardize(other), expected, terms=45, condition=40)
    fitted, fresh, single = Standardize(3), Standardize(3), Standardize(3)
    fitted.fit(_features())
    fresh.load_state_dict(fitted.state_dict())
    assert torch.equal(fresh(other), fitted(other))
    assert not list(fitted.parameters())
    single.fit([torch.ones(1, 3)])
    assert not bool(single(torch.ones(1, 3)).any())
    for features in ([], [torch.zeros(0, 3)], [torch.zeros(4, 2)]):
        refused(r"features must be \(nodes, 3\)", Standardize(3).fit, features)


def test_a_constant_channel_keeps_deviation_one_and_warns():
    standardize = Standardize(2)
    rows = torch.tensor([[1.0, 0.1], [3.0, 0.1], [5.0, 0.1]], dtype=F64)
    with pytest.warns(UserWarning, match=r"channels \[1\] are constant"):
        standardize.fit([rows])
    out = standardize(rows)
    # a unit in the last place of a tenth in float32, in which both are: 2^-27
    assert float(out[:, 1].abs().max()) <= 2.0**-27
    assert out[:, 0].tolist() == [-1, 0, 1]


@pytest.mark.parametrize("streams", ["dual", "primal", "both"])
@pytest.mark.parametrize("statistics", [("mean",), ("max",), ("mean", "max")])
def test_readout_statistics_are_those_of_each_mesh_alone(streams, statistics):
    several = (shapes.bowl(), shapes.triangle(), shapes.cube(), shapes.two_isolated())
    parts = [random_graph(seed, shape=shape) for seed, shape in enumerate(several)]
    readout = Readout(streams, statistics)
    vector = readout(PrimalDualGraph.batch(parts))
    assert vector.shape == (4, readout.width(primal=3, dual=4))
    reduce = {"mean": lambda x: x.mean(dim=0), "max": lambda x: x.amax(dim=0)}
    for row, part in zip(vector, parts, strict=True):
        features = [x for x, name in ((part.x_primal, "primal"), (part.x_dual, "dual"))
                    if streams in (name, "both")]  # fmt: skip
        expected = [
            reduce[name](x) if len(x) else torch.zeros(x.shape[1], dtype=F64)
            for x in features for name in statistics
        ]  # fmt: skip
        assert_close(row, torch.cat(expected), terms=256)


def test_readout_of_a_mesh_without_nodes_is_zero_nan_is_the_largest_and_unknown_streams_raise():
    empty = random_graph(0, shape=shapes.mesh(torch.zeros(1, 3), []))
    full = random_graph(1, shape=shapes.cube())
    readout = Readout("both", ("mean", "max"))
    vector = readout(PrimalDualGraph.batch([empty, full, empty]))
    assert not bool(vector[[0, 2]].any())
    assert torch.equal(vector[1:2], readout(full))
    x = torch.zeros(1000, 2)
    x[700, 1] = torch.nan
    (found,) = _Groups(torch.zeros(1000, dtype=torch.int64), 1).largest(x)
    assert found.isnan().tolist() == [False, True]
    refused(r"streams must be one of.*'all'", Readout, "all", ("mean",))
    refused(r"statistics must be among.*'median'", Readout, "both", ("median",))
    refused("statistics must be among", Readout, "both", ())


@pytest.mark.parametrize("dual", list(DualKind))
def test_a_mesh_pooled_to_one_node_gives_no_nan_and_no_nan_gradient(dual):
    graph = random_graph(0, dual=dual, shape=shapes.icosahedron())
    x_primal = graph.x_primal.requires_grad_()
    pooled, _ = EdgePool(keep=0.0)(graph, torch.rand(graph.primal.num_edges, 1))
    vector = Readout("both", ("mean", "max"))(pooled)
    assert bool(torch.isfinite(vector).all())
    vector.sum().backward()
    assert bool(torch.isfinite(x_primal.grad).all())


COUNTS = {
    "even": [70, 70, 70],
    "uneven": [50, 64, 33, 1],
    "with meshes without rows": [0, 90, 0, 71, 0],
    "one large mesh among small ones": [5, 0, 400, 1, 0],
    **{f"{rows} rows": [rows] for rows in (1, 255, 256, 512, 513, 1000, 2048)},
    "without rows": [0, 0],
}


@pytest.mark.parametrize("counts", list(COUNTS.values()), ids=list(COUNTS))
def test_meshes_of_a_batch_have_what_each_has_alone(counts):
    generator = torch.Generator().manual_seed(0)
    # few different numbers: many rows have the largest
    x = torch.randint(4, (sum(counts), 5), generator=generator).double().requires_grad_()
    weight = torch.rand(len(x), generator=generator, dtype=torch.float64)
    batch = torch.repeat_interleave(torch.tensor(counts))
    groups = _Groups(batch, len(counts))
    zero = x.new_zeros(5)
    parts = x.split(counts)
    alone = torch.stack([part.max(dim=0).values if len(part) else zero for part in parts])
    arriving = torch.randn(alone.shape, generator=generator, dtype=torch.float64)
    assert torch.equal(groups.largest(x), alone)
    if len(x):
        slopes = [torch.autograd.grad(y, x, arriving)[0] for y in (groups.largest(x), alone)]
        assert torch.equal(*slopes)
    for w in (None, weight):
        assert_close(groups.mean(x, w), group_mean(x, batch, len(counts), w), terms=2048)


SHAPES = {
    "closed": shapes.lumpy(shapes.icosphere(1), seed=3),
    "with a boundary": shapes.bowl(),
    "a pillow": shapes.pillow(),
    "two isolated faces": shapes.two_isolated(),
}


@pytest.mark.parametrize("name", sorted(SHAPES))
@pytest.mark.parametrize("weighted", [False, True])
def test_means_at_elements_are_those_of_loops(name, weighted):
    mesh = SHAPES[name]
    graph = PrimalDualGraph.from_mesh(mesh, dtype=torch.float64)
    x = torch.randn(mesh.num_faces, 3, dtype=torch.float64)
    area = torch.as_tensor(trimesh.triangles.area(mesh.vertices[mesh.faces].numpy()))
    weights = area if weighted else torch.ones_like(area)
    rows = {elements: defaultdict(list) for elements in ("faces", "edges", "vertices", "mesh")}
    rows["vertices"] |= {vertex: [] for vertex in range(mesh.num_vertices)}
    for face, corners in enumerate(mesh.faces.tolist()):
        rows["faces"][face].append(face)
        rows["mesh"][0].append(face)
        for k in range(3):
            rows["vertices"][corners[k]].append(face)
            rows["edges"][tuple(sorted((corners[k], corners[k - 1])))].append(face)
    for elements, lists in rows.items():
        expected = [
            (x[near] * weights[near, None]).sum(0) / weights[near].sum() if near else 0 * x[0]
            for _, near in sorted(lists.items())
        ]
        found = face_to_element_means(graph, x, elements, area_weighted=weighted)
        torch.testing.assert_close(found, torch.stack(expected))


def test_means_at_cut_edges_unused_vertices_and_without_a_surface():
    vertices = torch.tensor([[0.0, 0, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0], [-1, 0, 0], [0, -1, 0]])
    faces = torch.tensor([[0, 1, 2], [1, 0, 3], [0, 1, 4], [1, 0, 5]])
    mesh = TriangleMesh(vertices, faces, torch.tensor([[0, 3], [6, 9]]))
    found = edge_faces(Surface.from_mesh(mesh)).tolist()
    assert found[:2] == [[0, 1], [2, 3]]
    assert len(found) == 2 + 8
    graph = PrimalDualGraph.from_mesh(TriangleMesh(torch.eye(4, 3), torch.tensor([[0, 1, 2]])))
    found = face_to_element_means(graph, torch.ones(1, 2), "vertices")
    assert found.tolist() == [[1, 1]] * 3 + [[0, 0]]
    graph = PrimalDualGraph.from_adjacency(
        torch.tensor([[0, 1]]), DualKind.SINGLE, torch.zeros(2, dtype=torch.int64), 1
    )
    x = torch.ones(2, 3)
    assert face_to_element_means(graph, x, "mesh").tolist() == [[1, 1, 1]]
    for elements in ("edges", "vertices"):
        refused(f"no {elements}", face_to_element_means, graph, x, elements)
    refused("no areas", face_to_element_means, graph, x, "mesh", area_weighted=True)


@pytest.mark.parametrize("name", sorted(SHAPES))
@pytest.mark.parametrize("kind", list(DualKind))
def test_means_of_adjacencies_are_those_of_loops(name, kind):
    graph = PrimalDualGraph.from_mesh(SHAPES[name], kind)
    x = torch.randn(graph.num_dual, 2)
    found = adjacency_means(graph.with_features(graph.x_primal, x))
    per_edge = x.reshape(-1, kind.nodes_per_edge, 2).mean(1)
    for face in range(graph.num_primal):
        rows = (graph.undirected == face).any(1)
        wanted = per_edge[rows].mean(0) if bool(rows.any()) else torch.zeros(2)
        torch.testing.assert_close(found[face], wanted)


def test_up_block_returns_the_graph_before_the_pooling_and_reads_all_inputs():
    torch.manual_seed(0)
    graph = random_graph(0, (4, 4), shape=SHAPES["closed"])
    graph = graph.with_features(graph.x_primal.float(), graph.x_dual.float())
    skip = torch.randn(graph.num_primal, 3), torch.randn(graph.num_dual, 3)
    pooled, log = EdgePool(0.5)(graph, torch.rand(graph.primal.num_edges, 1))
    block = UpBlock(4, 3, 5).eval()
    out, same = block(pooled, log, skip), block(graph, None, skip)
    assert out.x_primal.shape == (graph.num_primal, 5)
    assert out.x_dual.shape == (graph.num_dual, 5)
    assert pooled.num_primal < graph.num_primal
    assert torch.equal(out.undirected, graph.undirected)
    assert torch.equal(same.undirected, graph.undirected)
    below = pooled.with_features(pooled.x_primal + 1, pooled.x_dual)
    assert int((log.dual_to_new < 0).sum()) > 0
    with torch.no_grad():
        for given in ((pooled, log, (skip[0] + 1, skip[1])), (pooled, log, (skip[0], skip[1] + 1)),
                      (below, log, skip)):  # fmt: skip
            assert not torch.equal(out.x_primal, block(*given).x_primal)
        block.fill += 1
        assert not torch.equal(out.x_primal, block(pooled, log, skip).x_primal)


NETWORKS = {
    "classifier": (PrimalDualClassifier, {"heads": 2, "keep": (0.7, None, 0.7)}),
    "segmenter": (PrimalDualSegmenter, {"keep": (0.7, 0.7)}),
}


def _network(kind):
    torch.manual_seed(0)
    network, settings = NETWORKS[kind]
    return network.preset("default", 5, channels=(8, 8, 8), **settings).double().eval()


@given(shape=shapes.meshes(), seed=st.integers(0, 9))
def test_received_attention_is_that_of_the_definition(shape, seed):
    graph = PrimalDualGraph.from_mesh(shape)
    torch.manual_seed(seed)
    logits = torch.randn(graph.primal.num_edges, 2, dtype=torch.float64)
    _, attention = graph.primal.attend(logits.new_zeros(graph.num_primal, 2, 1), logits)
    source, target = graph.primal.edge_index.tolist()
    sums = [[0.0, 0.0] for _ in range(graph.num_primal)]
    for s, t, weight in zip(source, target, attention.mean(dim=1).tolist(), strict=True):
        sums[s] = [sums[s][0] + weight, sums[s][1] + 1 / target.count(t)]
    expected = [total / even if even else 1.0 for total, even in sums]
    assert_close(received_attention(graph, attention), expected)


def test_even_attention_is_one_everywhere_and_other_attention_is_not():
    graph = PrimalDualGraph.from_mesh(chiral())
    even = torch.full((graph.primal.num_edges, 3), 1 / 3, dtype=torch.float64)
    assert_close(received_attention(graph, even), torch.ones(graph.num_primal))
    leaning = even * (1 + torch.rand_like(even))
    assert float((received_attention(graph, leaning) - 1).abs().max()) > 0.1
    with pytest.raises(ValueError, match=r"attention must be \(240, heads\), got \(3, 1\)"):
        received_attention(graph, torch.zeros(3, 1))
    graph = PrimalDualGraph.from_mesh(shapes.two_isolated())
    assert received_attention(graph, torch.zeros(0, 1)).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_look_inside_sees_what_the_network_computes(kind):
    model, mesh = _network(kind), chiral()
    calls, logs = [], []
    analysis = model.blocks if kind == "classifier" else [*model.encoder, model.bottleneck]
    for block in analysis:
        last = [m for m in block.modules() if isinstance(m, PrimalDualConv)][-1]
        last.register_forward_hook(lambda m, given, result: calls.append((given[0], result[2])))
    for module in model.modules():
        if isinstance(module, EdgePool):
            module.register_forward_hook(lambda m, given, result: logs.append(result[1].cluster))
    model(mesh)
    expected, logged = [received_attention(*call) for call in calls], list(logs)
    found = model.inspect(mesh)
    assert len(found.attention) == len(expected) == len(analysis)
    first, second = logged[0], logged[1][logged[0]]
    assert all(map(torch.equal, found.clusters, (first, second)))
    for values, own in zip(found.attention, expected, strict=True):
        faces = {len(first): torch.arange(len(first)), int(first.max()) + 1: first}
        assert torch.equal(values, own[faces.get(len(own), second)])
    assert float((found.attention[0] - 1).abs().max()) > 1e-3  # not even: there is something to see


@pytest.mark.parametrize("kind", NETWORKS)
def test_inspection_follows_the_faces_and_the_meshes_of_a_batch(kind):
    model, mesh = _network(kind), chiral()
    order = torch.randperm(mesh.num_faces, generator=torch.Generator().manual_seed(1))
    renumbered = model.inspect(TriangleMesh(mesh.vertices, mesh.faces[order]))
    for found, values in zip(renumbered.attention, model.inspect(mesh).attention, strict=True):
        assert_close(found, values[order], terms=64, condition=1e3)
    several = [mesh, shapes.bowl(), shapes.two_isolated()]
    each = zip(*(model.inspect(one).attention for one in several), strict=True)
    for found, alone in zip(model.inspect(several).attention, each, strict=True):
        assert_close(found, torch.cat(alone), terms=64, condition=1e3)


def test_inspection_keeps_the_state_and_the_head_maps_the_embedding_to_logits():
    model = _network("classifier").train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = model.inspect(chiral())
    assert model.training
    assert not any(values.requires_grad for values in found.attention)
    torch.testing.assert_close(dict(model.state_dict()), before, rtol=0, atol=0)
    assert repr(found).startswith("Inspection(faces=80, blocks=3, clusters=[")
    model, several = _network("classifier"), [chiral(), shapes.bowl()]
    vectors = model.embed(several)
    assert vectors.shape == (2, model.head[0].num_features)
    assert torch.equal(model.head(vectors), model(several))
    turned = [shapes.turned(mesh, 5) for mesh in several]
    assert_close(model.embed(turned), vectors, terms=64, condition=1e4)


@pytest.mark.parametrize("at", ["faces", "edges", "vertices", "mesh"])
def test_the_head_of_a_segmenter_maps_its_features_to_outputs(at):
    torch.manual_seed(0)
    model = PrimalDualSegmenter.preset("default", 5, channels=(8, 8, 8), outputs_at=at)
    model, several = model.double().eval(), [chiral(), shapes.bowl()]
    features = model.features(several)
    assert torch.equal(model.head(features), model(several))
    assert torch.equal(model.features(several, at), features)
    turned = [shapes.turned(mesh, 5) for mesh in several]
    assert_close(model.features(turned), features, terms=64, condition=1e4)
    assert bool((features.std(dim=0) > 0.01).any())  # or nothing would be compared
    refused("at must be one of", model.features, several, "corners")

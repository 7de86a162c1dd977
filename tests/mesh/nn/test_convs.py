import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import leaky_relu

from equigeo.groups import O
from equigeo.mesh import (
    DualKind,
    PrimalDualConv,
    PrimalDualFieldConv,
    PrimalDualGraph,
    TriangleMesh,
)
from equigeo.reps import Irreps, TensorRep
from equigeo.testing import assert_equivariant, tolerance
from tests.mesh import shapes
from tests.mesh.definitions import (
    F64,
    assert_close,
    directed_names,
    dual_nodes,
    edge_names,
    random_graph,
    softmax_average,
)
from tests.tier import tier
from tests.wrong_inputs import refused

KINDS = list(DualKind)
FORMS = (
    {},
    {"heads": 3, "bias": True, "activation": True},
    {"heads": 2, "self_term": True, "coupling": True},
)
CASES = [(dual, form) for dual in KINDS for form in FORMS]


def _conv(seed=0, channels=(3, 4), out=(2, 5), **form):
    torch.manual_seed(seed)
    conv = PrimalDualConv(channels, out, **form).double()
    with torch.no_grad():
        for parameter in conv.parameters():  # biases start at zero and would hide errors
            parameter.copy_(torch.randn(parameter.shape, dtype=F64))
    return conv


def _apply(conv, graph):
    return conv(graph, graph.x_primal, graph.x_dual)


def test_a_path_of_three_faces_by_hand():
    graph = PrimalDualGraph.from_adjacency(
        torch.tensor([[0, 1], [1, 2]]), DualKind.SINGLE, torch.zeros(3, dtype=torch.int64), 1
    ).with_features(*(torch.tensor(x, dtype=F64) for x in ([[10], [20], [30]], [[1], [2]])))
    conv = PrimalDualConv((1, 1), (1, 1)).double()
    for parameter in conv.parameters():
        torch.nn.init.ones_(parameter)
    torch.nn.init.zeros_(conv.dual_attention)
    primal, dual, attention = _apply(conv, graph)
    weight = 1 / (1 + math.exp(-1))
    assert round(weight, 6) == 0.731059
    assert_close(dual, [[2], [1]])
    expected = {(0, 1): weight, (2, 1): 1 - weight, (1, 0): 1, (1, 2): 1}
    assert_close(attention[:, 0], [expected[edge] for edge in directed_names(graph)])
    assert_close(primal, [[20], [10 * weight + 30 * (1 - weight)], [20]])
    assert round(primal[1].item(), 6) == 15.378828


def _naive(conv, graph):
    """Sections 2.1 and 2.2 of the specification, one node and one head at a time."""
    heads = conv.heads
    z = (graph.x_dual @ conv.dual_linear.weight.T).unflatten(1, (heads, -1))
    y = (graph.x_primal @ conv.primal_linear.weight.T).unflatten(1, (heads, -1))
    sources = [[] for _ in range(graph.num_dual)]
    for s, t in graph.dual_edges.edge_index.T.tolist():
        sources[t].append(s)
    names = dual_nodes(graph.dual, edge_names(graph))
    dual = torch.zeros_like(z)
    half = z.shape[2]
    for h in range(heads):
        a = conv.dual_attention[h]
        for t in range(graph.num_dual):
            logits = [leaky_relu(a[:half] @ z[t, h] + a[half:] @ z[s, h], 0.2) for s in sources[t]]
            dual[t, h] = softmax_average(logits, [z[s, h] for s in sources[t]], z[t, h])[0]
    dual = dual.flatten(1) + conv.dual_bias
    dual = dual.relu().unflatten(1, (heads, -1))
    primal = torch.zeros_like(y)
    weights = {}
    for h in range(heads):
        for i in range(graph.num_primal):
            neighbours = [j for j, target in directed_names(graph) if target == i]
            reads = [
                names.index((j, i) if graph.dual is not DualKind.SINGLE else tuple(sorted((j, i))))
                for j in neighbours
            ]
            logits = [leaky_relu(conv.primal_attention[h] @ dual[d, h], 0.2) for d in reads]
            values = [y[j, h] for j in neighbours]
            primal[i, h], each = softmax_average(logits, values, y[i, h])
            weights.update({(j, i, h): w for j, w in zip(neighbours, each, strict=True)})
    primal = (primal.flatten(1) + conv.primal_bias).relu()
    attention = [[weights[j, i, h] for h in range(heads)] for j, i in directed_names(graph)]
    return primal, dual.flatten(1), torch.tensor(attention, dtype=F64).reshape(-1, heads)


@given(shapes.kinds, shapes.meshes(), st.integers(0, 99))
def test_the_layer_equals_its_definition_written_as_loops(dual, shape, seed):
    graph = random_graph(seed, dual=dual, shape=shape)
    conv = _conv(seed, heads=2, bias=True, activation=True)
    with torch.no_grad():
        expected = _naive(conv, graph)
        for got, want in zip(_apply(conv, graph), expected, strict=True):
            assert_close(got, want, terms=64, condition=100)


def test_faces_see_their_neighbours_their_bias_and_a_linear_map_of_themselves():
    graph = random_graph(0, shape=shapes.two_isolated())
    primal, dual, attention = _apply(_conv(), graph)
    assert not bool(primal.any())
    assert dual.shape == (0, 5)
    assert attention.shape == (0, 1)
    conv = _conv(bias=True, activation=True)
    assert_close(_apply(conv, graph)[0], conv.primal_bias.relu().expand(2, -1))
    conv = _conv(self_term=True)
    assert_close(_apply(conv, graph)[0], conv.primal_self(graph.x_primal))
    graph = random_graph(0, shape=shapes.bowl())
    conv = _conv(self_term=True)
    plain = _conv()
    plain.load_state_dict(conv.state_dict(), strict=False)
    dual = _apply(plain, graph)[1] + conv.dual_self(graph.x_dual)
    assert_close(_apply(conv, graph)[1], dual, terms=16)


def test_the_coupling_alone_adds_the_sum_and_the_absolute_difference_of_both_faces():
    for kind in KINDS:
        graph = random_graph(0, dual=kind, shape=shapes.bowl())
        conv = _conv(coupling=True)
        plain = _conv()
        plain.load_state_dict(conv.state_dict(), strict=False)
        names = torch.tensor(dual_nodes(kind, edge_names(graph)))
        i, j = graph.x_primal[names].unbind(1)
        added = conv.dual_coupling(torch.cat((i + j, (i - j).abs()), dim=1))
        assert_close(_apply(conv, graph)[1], _apply(plain, graph)[1] + added, terms=16)
    graph = random_graph(0, shape=shapes.bowl())
    other = graph.with_features(graph.x_primal + 1, graph.x_dual)
    for form in FORMS[:2]:
        conv = _conv(**form)
        assert torch.equal(_apply(conv, graph)[1], _apply(conv, other)[1])
        assert torch.equal(_apply(conv, graph)[2], _apply(conv, other)[2])
    conv = _conv(coupling=True)
    assert not torch.equal(_apply(conv, graph)[1], _apply(conv, other)[1])


@pytest.mark.parametrize(("dual", "form"), CASES)
def test_a_batch_gives_exactly_the_separate_results_where_products_do_not_round(dual, form):
    several = (shapes.bowl(), shapes.triangle(), shapes.torus(), shapes.closed_strip())
    parts = [random_graph(seed, dual=dual, shape=shape) for seed, shape in enumerate(several)]
    parts = [g.with_features(g.x_primal.round(), g.x_dual.round()) for g in parts]
    conv = _conv(out=(2, 1), **form)  # one dual channel: the primal logits are single products
    with torch.no_grad():
        for parameter in conv.parameters():
            parameter.copy_((2 * parameter).round())
    together = _apply(conv, PrimalDualGraph.batch(parts))
    separate = zip(*(_apply(conv, part) for part in parts), strict=True)
    for got, expected in zip(together, separate, strict=True):
        assert torch.equal(got, torch.cat(expected))


def test_parameters_are_counted_as_published_start_in_glorots_range_and_are_positive():
    def count(**form):
        return sum(p.numel() for p in PrimalDualConv((6, 7), (4, 5), **form).parameters())

    for heads in (1, 3):
        published = 7 * heads * 5 + 2 * heads * 5 + 6 * heads * 4 + heads * 5
        assert count(heads=heads) == published
        assert count(heads=heads, bias=True) == published + heads * (4 + 5)
        assert count(heads=heads, self_term=True) == published + heads * (6 * 4 + 7 * 5)
        assert count(heads=heads, coupling=True) == published + heads * 2 * 6 * 5
    torch.manual_seed(0)
    conv = PrimalDualConv((6, 7), (64, 32), heads=3, bias=True)
    assert not bool(conv.primal_bias.any() or conv.dual_bias.any())
    for weight in (conv.primal_linear.weight, conv.dual_linear.weight):
        bound = math.sqrt(6 / sum(weight.shape))
        assert 0.9 * bound < weight.abs().max().item() <= bound
    for wrong in ({"heads": 0}, {"out_channels": (0, 4)}, {"in_channels": (3, -1)}):
        arguments = {"in_channels": (3, 4), "out_channels": (3, 4)} | wrong
        refused("must be positive", PrimalDualConv, **arguments)


ON_FACES, ON_PAIRS = Irreps("2x0e + 1o"), TensorRep(O(3), up=1) + Irreps("0e")
OUT_FACES, OUT_PAIRS = Irreps("3x0e + 2x1o + 2e"), TensorRep(O(3), up=2) + Irreps("2x0e")
CLOSE = tolerance(torch.float64, 32)  # more copies of an irrep than any map mixes


def lumpy(seed: int = 0) -> TriangleMesh:
    """A closed mesh without any symmetry."""
    return shapes.lumpy(shapes.icosahedron(), seed, 0.2)


def layer(**options: Any) -> PrimalDualFieldConv:
    torch.manual_seed(0)
    return PrimalDualFieldConv((ON_FACES, ON_PAIRS), (OUT_FACES, OUT_PAIRS), **options).double()


def fields(graph: PrimalDualGraph, seed: int = 3) -> tuple[Tensor, Tensor]:
    sizes = (graph.num_primal, ON_FACES.dim), (graph.num_dual, ON_PAIRS.dim)
    return tuple(torch.as_tensor(np.random.default_rng(seed).normal(size=size)) for size in sizes)


@pytest.mark.parametrize("dual", tier([DualKind.SINGLE], [*DualKind]))
def test_fields_turn_with_the_mesh(dual: DualKind) -> None:
    conv = layer(heads=2)

    def convolve(mesh: TriangleMesh, x_primal: Tensor, x_dual: Tensor) -> tuple[Tensor, Tensor]:
        return conv(PrimalDualGraph.from_mesh(mesh, dual), x_primal, x_dual)

    mesh = lumpy()
    inputs = [mesh, *fields(PrimalDualGraph.from_mesh(mesh, dual))]
    reps = [None, *conv.rep_in]
    assert_equivariant(convolve, reps, conv.rep_out, inputs=inputs, condition=16.0)

    def still(mesh: TriangleMesh, x_primal: Tensor, x_dual: Tensor) -> tuple[Tensor, Tensor]:
        """Steps and normals of the mesh as it stood."""
        return convolve(inputs[0], x_primal, x_dual)

    with pytest.raises(AssertionError, match="not equivariant"):
        assert_equivariant(still, reps, conv.rep_out, inputs=inputs, condition=16.0)


def test_place_size_winding_and_order_of_faces_do_not_matter() -> None:
    conv, mesh = layer(), lumpy()
    graph = PrimalDualGraph.from_mesh(mesh)
    x_primal, x_dual = fields(graph)
    want = conv(graph, x_primal, x_dual)
    inside_out = TriangleMesh(mesh.vertices, mesh.faces.flip(1))
    for other in (
        PrimalDualGraph.from_mesh(TriangleMesh(3 * mesh.vertices - 1, mesh.faces)),
        *(PrimalDualGraph.from_mesh(one, features="multiscale") for one in (mesh, inside_out)),
    ):
        torch.testing.assert_close(conv(other, x_primal, x_dual), want, **CLOSE)
    order = torch.randperm(mesh.num_faces, generator=torch.Generator().manual_seed(1))
    permuted = PrimalDualGraph.from_mesh(TriangleMesh(mesh.vertices, mesh.faces[order]))
    rank = order.argsort()
    pairs = rank[graph.undirected].sort(1).values
    # Row of each old pair among the new ones.
    where = (permuted.undirected[:, None] == pairs[None]).all(2).int().argmax(0)
    there = torch.empty_like(x_dual).index_copy(0, where, x_dual)
    on_faces, on_pairs = conv(permuted, x_primal[order], there)
    torch.testing.assert_close((on_faces, on_pairs[where]), (want[0][order], want[1]), **CLOSE)


@pytest.mark.full
def test_field_batches_are_meshes_side_by_side() -> None:
    conv = layer()
    graphs = [PrimalDualGraph.from_mesh(lumpy(seed)) for seed in (0, 1)]
    given_ = [fields(graph, seed) for seed, graph in enumerate(graphs)]
    each = [conv(graph, *x) for graph, x in zip(graphs, given_, strict=True)]
    inputs, want = (tuple(map(torch.cat, zip(*x, strict=True))) for x in (given_, each))
    found = conv(PrimalDualGraph.batch(graphs), *inputs)
    torch.testing.assert_close(found, want, **CLOSE)


def test_vectors_come_out_of_scalars() -> None:
    torch.manual_seed(0)
    conv = PrimalDualFieldConv(
        (Irreps("2x0e"), Irreps("8x0e")), (Irreps("1o"), Irreps("0e"))
    ).double()

    def vectors(mesh: TriangleMesh) -> Tensor:
        graph = PrimalDualGraph.from_mesh(mesh, dtype=torch.float64)
        return conv(graph, graph.x_primal[:, :1].expand(-1, 2).contiguous(), graph.x_dual)[0]

    assert_equivariant(vectors, rep_out=Irreps("1o"), inputs=[lumpy()], condition=64.0)


def test_what_does_not_fit_is_named() -> None:
    with pytest.raises(ValueError, match=r"turn by O\(3\)"):
        PrimalDualFieldConv((TensorRep(O(2)), Irreps("0e")), (Irreps("0e"), Irreps("0e")))
    with pytest.raises(TypeError, match="has a Representation, got int"):
        PrimalDualFieldConv((3, Irreps("0e")), (Irreps("0e"), Irreps("0e")))  # type: ignore[arg-type]
    refused("must be positive", layer, vectors=0)
    graph = PrimalDualGraph.from_mesh(lumpy())
    refused("x_primal", layer(), graph, torch.zeros(3, 5, dtype=torch.float64), fields(graph)[1])
    reference = PrimalDualGraph.from_mesh(lumpy(), features="reference")
    refused("wound outwards", layer(), reference, *fields(reference))
    refused("float32", layer(), graph, *(x.float() for x in fields(graph)), error=TypeError)

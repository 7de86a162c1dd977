import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equigeo.mesh import DualKind, PrimalDualConv, PrimalDualGraph
from tests.mesh import shapes
from tests.mesh.definitions import (
    F64,
    assert_close,
    directed_names,
    dual_nodes,
    edge_names,
    leaky,
    random_graph,
    softmax_average,
)
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


def _ones(conv):
    with torch.no_grad():
        for parameter in conv.parameters():
            parameter.fill_(1.0)
        conv.dual_attention.zero_()
    return conv


def _path(x_primal, x_dual):
    """Three faces in a row."""
    graph = PrimalDualGraph.from_adjacency(
        torch.tensor([[0, 1], [1, 2]]), DualKind.SINGLE, torch.zeros(3, dtype=torch.int64), 1
    )
    column = lambda x: torch.tensor(x, dtype=F64)[:, None]  # noqa: E731
    return graph.with_features(column(x_primal), column(x_dual))


def test_a_path_of_three_faces_by_hand():
    graph = _path([10, 20, 30], [1, 2])
    primal, dual, attention = _apply(_ones(PrimalDualConv((1, 1), (1, 1)).double()), graph)
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
            logits = [leaky(a[:half] @ z[t, h] + a[half:] @ z[s, h]) for s in sources[t]]
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
            logits = [leaky(conv.primal_attention[h] @ dual[d, h]) for d in reads]
            values = [y[j, h] for j in neighbours]
            primal[i, h], each = softmax_average(logits, values, y[i, h])
            weights.update({(j, i, h): w for j, w in zip(neighbours, each, strict=True)})
    primal = (primal.flatten(1) + conv.primal_bias).relu()
    attention = [[weights[j, i, h] for h in range(heads)] for j, i in directed_names(graph)]
    return primal, dual.flatten(1), torch.tensor(attention, dtype=F64).reshape(-1, heads)


@given(st.sampled_from(KINDS), shapes.meshes(), st.integers(0, 99))
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


def _several(dual):
    several = (shapes.bowl(), shapes.triangle(), shapes.torus(), shapes.closed_strip())
    return [random_graph(seed, dual=dual, shape=shape) for seed, shape in enumerate(several)]


def _separate(conv, parts):
    return [torch.cat(rows) for rows in zip(*(_apply(conv, g) for g in parts), strict=True)]


@pytest.mark.parametrize(("dual", "form"), CASES)
def test_a_batch_gives_exactly_the_separate_results_where_products_do_not_round(dual, form):
    parts = [g.with_features(g.x_primal.round(), g.x_dual.round()) for g in _several(dual)]
    conv = _conv(out=(2, 1), **form)  # one dual channel: the primal logits are single products
    with torch.no_grad():
        for parameter in conv.parameters():
            parameter.copy_((2 * parameter).round())
    together = _apply(conv, PrimalDualGraph.batch(parts))
    for got, expected in zip(together, _separate(conv, parts), strict=True):
        assert torch.equal(got, expected)


def test_parameters_are_counted_as_published_and_start_in_glorots_range():
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


@pytest.mark.parametrize(
    "wrong", [{"heads": 0}, {"out_channels": (0, 4)}, {"in_channels": (3, -1)}]
)
def test_counts_must_be_positive(wrong):
    arguments = {"in_channels": (3, 4), "out_channels": (3, 4), **wrong}
    refused("must be positive", PrimalDualConv, **arguments)

"""The block: its formula, its norms, and graphs on which statistics are scarce."""

import itertools

import pytest
import torch

from equigeo.groups import O
from equigeo.mesh import DualKind, EdgePool, PrimalDualGraph, ResidualBlock
from equigeo.mesh.conv.node_norm import node_norm
from equigeo.mesh.geometry.features import feature_channels
from equigeo.reps import Trivial
from equigeo.testing import assert_equivariant
from tests.mesh import shapes
from tests.mesh.definitions import F64, assert_close, graph_of, random_graph

SCARCE = {
    "one triangle": shapes.triangle(),
    "two isolated faces": shapes.two_isolated(),
    "one pair": shapes.two_faces(1.0),
    "a pillow": shapes.pillow(),
    "no face": shapes.mesh(torch.zeros(1, 3), []),
}


def _block(*, out=(4, 5), seed=0, **options):
    torch.manual_seed(seed)
    return ResidualBlock((3, 4), out, **options).double()


def _apply(block, graph):
    return block(graph, graph.x_primal, graph.x_dual)


def test_the_block_computes_its_formula():
    graph = random_graph(0, shape=shapes.bowl())
    block = _block(skips=2, norm="none").eval()  # untouched running statistics: BN divides by
    with torch.no_grad():  # the root of 1 + 1e-5
        primal, dual, _ = block.first(graph, graph.x_primal, graph.x_dual)
        first = primal, dual
        for conv in block.branch:
            scale = (1 + 1e-5) ** -0.5
            primal, dual, _ = conv(graph, primal.relu() * scale, dual.relu() * scale)
        result, log = _apply(block, graph)
    assert log is None
    assert_close(result.x_primal, (primal + first[0]).relu(), terms=64)
    assert_close(result.x_dual, (dual + first[1]).relu(), terms=64)


@pytest.mark.parametrize("norm", ["batch", "group", "none"])
def test_outputs_are_rectified_and_keep_the_graph(norm):
    graph = random_graph(0, shape=shapes.bowl())
    result, _ = _apply(_block(norm=norm), graph)
    assert result.x_primal.shape == (graph.num_primal, 4)
    assert result.x_dual.shape == (graph.num_dual, 5)
    for x in (result.x_primal, result.x_dual):
        assert bool((x >= 0).all())
        assert bool(x.any())
    assert torch.equal(result.undirected, graph.undirected)


def test_without_a_branch_the_first_convolution_passes():
    graph = random_graph(0, shape=shapes.bowl())
    block = _block(skips=0, norm="none")
    primal, dual, _ = block.first(graph, graph.x_primal, graph.x_dual)
    result, _ = _apply(block, graph)
    assert_close(result.x_primal, primal.relu())
    assert_close(result.x_dual, dual.relu())


@pytest.mark.full
@pytest.mark.parametrize("dual", DualKind)
def test_renumbering_faces_permutes_the_outputs_of_a_block(dual):
    shape = shapes.bowl()
    channels = feature_channels(dual, "invariant")
    torch.manual_seed(0)
    block = ResidualBlock(channels, (4, 5), heads=2, self_term=True, coupling=True).double()
    order = shapes.permutation(shape.num_faces, 0)
    graph = graph_of(shape, dual, "invariant")
    expected = _apply(block, graph)[0].x_primal[order]
    renumbered = graph_of(shapes.renumbered_faces(shape, order), dual, "invariant")
    assert_close(_apply(block, renumbered)[0].x_primal, expected, terms=256, condition=100)


@pytest.mark.full
def test_the_block_is_invariant_from_coordinates():
    torch.manual_seed(0)
    block = ResidualBlock((1, 8), (4, 5), self_term=True, coupling=True).double()

    def layer(shape):
        result, _ = _apply(block, graph_of(shape, features="invariant"))
        return result.x_primal, result.x_dual

    rep_out = [Trivial(O(3), 4), Trivial(O(3), 5)]
    shape = shapes.lumpy(shapes.icosphere(1))
    assert_equivariant(layer, rep_out=rep_out, inputs=[shape], condition=1000)


@pytest.mark.full
def test_in_evaluation_a_batch_gives_the_separate_results():
    parts = [random_graph(s, shape=shape) for s, shape in enumerate((shapes.bowl(), shapes.cube()))]
    block = _block().eval()
    separate = [_apply(block, part)[0] for part in parts]
    together, _ = _apply(block, PrimalDualGraph.batch(parts))
    expected = [torch.cat([getattr(g, x) for g in separate]) for x in ("x_primal", "x_dual")]
    assert_close(together.x_primal, expected[0], terms=64)
    assert_close(together.x_dual, expected[1], terms=64)


@pytest.mark.parametrize("norm", ["batch", "group", "none"])
@pytest.mark.parametrize("shape", list(SCARCE.values()), ids=list(SCARCE))
def test_scarce_graphs_give_finite_outputs_and_gradients(shape, norm):
    for training, dual in itertools.product([True, False], DualKind):
        graph = random_graph(0, dual=dual, shape=shape)
        block = _block(norm=norm, out=(8, 8), self_term=True, bias=True, pool=EdgePool(keep=0.5))
        result, _ = _apply(block.train(training), graph)
        loss = result.x_primal.sum() + result.x_dual.sum()
        if graph.num_primal:
            loss.backward()
        gradients = [p.grad for p in block.parameters() if p.grad is not None]
        for values in (loss, *gradients, *block.buffers()):
            assert bool(torch.isfinite(values).all())


def test_pooling_reads_the_attention_of_the_last_convolution():
    graph = random_graph(0, shape=shapes.bowl())
    pool = EdgePool(keep=0.8)
    block = _block(pool=pool).eval()
    attention = []
    block.branch[-1].register_forward_hook(lambda *call: attention.append(call[2][2]))
    pooled, log = _apply(block, graph)
    expected, expected_log = pool(log.graph, attention[0])
    assert torch.equal(log.cluster, expected_log.cluster)
    assert torch.equal(pooled.x_primal, expected.x_primal)
    assert pooled.num_primal < graph.num_primal


def test_sixteen_groups_of_two_channels_leave_little_but_signs():
    norm = node_norm("group", 32, 16).double()
    x = torch.randn(200, 32, dtype=F64, generator=torch.Generator().manual_seed(0))
    y = norm(x).detach()
    differ = (x.view(200, 16, 2).diff(dim=2).abs() > 0.05).expand(-1, -1, 2)
    assert bool((y.view(200, 16, 2)[differ].abs() > 0.99).all())
    assert bool(differ.float().mean() > 0.9)


def test_by_default_a_group_has_eight_channels_and_keeps_magnitudes():
    norm = node_norm("group", 32)
    assert norm.num_groups == 4
    assert node_norm("group", 5).num_groups == 1
    x = torch.randn(200, 32, generator=torch.Generator().manual_seed(0))
    assert float((norm(x).abs() > 0.9).float().mean()) < 0.6


def test_an_unknown_norm_is_refused():
    with pytest.raises(ValueError, match=r"norm must be.*'layer'"):
        node_norm("layer", 8)

import copy
import itertools

import pytest
import torch
from torch import nn

from equigeo.mesh import (
    DualKind,
    EdgePool,
    PrimalDualClassifier,
    PrimalDualGraph,
    PrimalDualSegmenter,
    ResidualBlock,
)
from equigeo.mesh.nn.norm import RectifiedBatchNorm, node_norm
from equigeo.mesh.nn.residual_block import recompute, recompute_blocks
from equigeo.testing import tolerance
from tests.draws import generator
from tests.mesh import shapes
from tests.mesh.definitions import F64, SCARCE, assert_close, assert_finite, chiral, random_graph
from tests.wrong_inputs import refused


def _block(*, out=(4, 5), seed=0, **options):
    torch.manual_seed(seed)
    return ResidualBlock((3, 4), out, **options).double()


def _apply(block, graph):
    return block(graph, graph.x_primal, graph.x_dual)


def test_the_block_computes_its_formula():
    graph = random_graph(0, shape=shapes.bowl())
    block = _block(skips=2, norm="none").eval()  # untouched running statistics: BN divides by
    scale = (1 + 1e-5) ** -0.5  # the root of 1 + 1e-5
    with torch.no_grad():
        primal, dual, _ = first = block.first(graph, graph.x_primal, graph.x_dual)
        for conv in block.branch:
            primal, dual, _ = conv(graph, primal.relu() * scale, dual.relu() * scale)
        result, log = _apply(block, graph)
    assert log is None
    assert_close(result.x_primal, (primal + first[0]).relu(), terms=64)
    assert_close(result.x_dual, (dual + first[1]).relu(), terms=64)
    block = _block(skips=0, norm="none")
    primal, dual, _ = block.first(graph, graph.x_primal, graph.x_dual)
    result, _ = _apply(block, graph)
    assert_close(result.x_primal, primal.relu())
    assert_close(result.x_dual, dual.relu())


@pytest.mark.parametrize("norm", ["batch", "group", "none"])
@pytest.mark.parametrize("skips", [0, 2])
def test_features_without_gradients_are_equal_and_leave_those_that_others_keep(
    norm, skips, monkeypatch
):
    graph = random_graph(0, shape=shapes.bowl())
    block, kept = _block(skips=skips, norm=norm).eval(), []
    before = graph.x_primal.clone(), graph.x_dual.clone()
    expected, _ = _apply(block, graph)
    with torch.no_grad():
        assert_close(_apply(block, graph)[0].x_primal, expected.x_primal, terms=64)
    block.first.register_forward_hook(lambda _, inputs, outputs: kept.append(outputs[0]))
    _apply(block, graph)
    with torch.no_grad():
        result, _ = _apply(block, graph)
        monkeypatch.setattr("equigeo._core.tensors.has_hooks", lambda part: False)
        _apply(block, graph)
    assert_close(result.x_dual, expected.x_dual, terms=64)
    assert_close(kept[1], kept[0].detach(), terms=64)
    overwritten = not torch.allclose(kept[2], kept[0])
    assert overwritten == (skips == 0)  # where hooks are not seen; a residual is read again
    assert torch.equal(graph.x_primal, before[0])
    assert torch.equal(graph.x_dual, before[1])


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


@pytest.mark.parametrize("norm", ["batch", "group", "none"])
@pytest.mark.parametrize("name", [*SCARCE, "no face"])
def test_scarce_graphs_give_finite_outputs_and_gradients(name, norm):
    shape = SCARCE.get(name, shapes.mesh(torch.zeros(1, 3), []))
    for training, dual in itertools.product([True, False], DualKind):
        graph = random_graph(0, dual=dual, shape=shape)
        block = _block(norm=norm, out=(8, 8), self_term=True, bias=True, pool=EdgePool(keep=0.5))
        result, _ = _apply(block.train(training), graph)
        loss = result.x_primal.sum() + result.x_dual.sum()
        if graph.num_primal:
            loss.backward()
        assert_finite(block, loss)


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


def test_groups_of_eight_channels_keep_magnitudes_and_those_of_two_do_not():
    norm = node_norm("group", 32)
    assert norm.num_groups == 4
    assert node_norm("group", 5).num_groups == 1
    x = torch.randn(200, 32, generator=generator(0))
    assert float((norm(x).abs() > 0.9).float().mean()) < 0.6
    refused(r"norm must be.*'layer'", node_norm, "layer", 8)
    norm = node_norm("group", 32, 16).double()
    x = torch.randn(200, 32, dtype=F64, generator=generator(0))
    y = norm(x).detach()
    differ = (x.view(200, 16, 2).diff(dim=2).abs() > 0.05).expand(-1, -1, 2)
    assert bool((y.view(200, 16, 2)[differ].abs() > 0.99).all())
    assert bool(differ.float().mean() > 0.9)


def _models():
    torch.manual_seed(0)
    return {
        "classifier": PrimalDualClassifier.preset("default", 3, dropout=0.0),
        "paper": PrimalDualClassifier.preset("paper", 3),
        "segmenter": PrimalDualSegmenter.preset("default", 3, dropout=0.0),
    }


def _run(model):
    """Outputs, gradients and buffers after a step and a half."""
    graph = PrimalDualGraph.batch([model.graph(shape) for shape in (chiral(), shapes.bowl())])
    model.train()
    for _ in range(2):
        out = model(graph)
    out.square().sum().backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return out.detach(), gradients, dict(model.named_buffers())


@pytest.mark.parametrize("name", sorted(_models()))
def test_checkpointing_returns_equal_bits(name):
    model = _models()[name]
    other = copy.deepcopy(model)
    recompute_blocks(other)
    torch.testing.assert_close(_run(other), _run(model), rtol=0, atol=0)


def test_checkpointing_is_switched_off_again_and_computes_blocks_in_the_backward_pass(monkeypatch):
    model = _models()["classifier"]
    recompute_blocks(model)
    assert all(block.checkpoint for block in model.blocks)
    recompute_blocks(model, False)
    assert not any(block.checkpoint for block in model.blocks)
    refused("must hold a ResidualBlock, got a Linear without", recompute_blocks, nn.Linear(2, 2))
    calls = []
    convolve = ResidualBlock._convolve
    monkeypatch.setattr(
        ResidualBlock, "_convolve", lambda *given: calls.append(1) or convolve(*given)
    )
    model = _models()["classifier"].train()
    recompute_blocks(model)
    out = model([chiral(), shapes.bowl()])
    assert len(calls) == len(model.blocks)
    out.sum().backward()
    assert len(calls) == 2 * len(model.blocks)
    with torch.no_grad():
        model.eval()(shapes.bowl())
    assert len(calls) == 3 * len(model.blocks)


def _checkpointed():
    """A graph, a block, and the same block that computes its activations again."""
    block = _block(self_term=True)
    other = copy.deepcopy(block)
    recompute_blocks(other)
    return random_graph(0, shape=shapes.bowl()), block, other


def test_second_gradients_of_a_block_are_equal():
    graph, block, other = _checkpointed()
    found = []
    for each in (block, other):
        x = graph.x_primal.clone().requires_grad_()
        result, _ = each(graph, x, graph.x_dual)
        loss = result.x_primal.square().sum() + result.x_dual.square().sum()
        (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
        gradient.square().sum().backward()
        found.append((x.grad, each.first.primal_linear.weight.grad, dict(each.named_buffers())))
    assert bool(found[0][0].any())
    torch.testing.assert_close(*found, rtol=0, atol=0)


def test_recompute_repeats_dropout_and_restores_statistics_after_an_error():
    drop = nn.Dropout(0.5)
    x = torch.ones(64, requires_grad=True)
    torch.manual_seed(0)
    plain = drop(x)
    after = torch.get_rng_state()
    torch.manual_seed(0)
    out = recompute(drop, lambda x: drop(x).square(), x)
    out.sum().backward()
    assert torch.equal(torch.get_rng_state(), after)
    assert torch.equal(x.grad, 2 * plain.detach() ** 2)
    norm, calls = nn.BatchNorm1d(1), []

    def fail(x):
        calls.append(1)
        x = norm(x)
        if len(calls) > 1:
            raise RuntimeError("second call")
        return x * x

    buffers = dict(norm.named_buffers())
    out = recompute(norm, fail, torch.tensor([[1.0], [3.0]], requires_grad=True))
    refused("second call", out.sum().backward, error=RuntimeError)
    assert all(buffers[name] is buffer for name, buffer in norm.named_buffers())
    assert int(norm.num_batches_tracked) == 1


@pytest.mark.full
def test_a_compiled_block_gives_the_same():
    graph, block, other = _checkpointed()

    def call(block, x_primal):
        return block(graph, x_primal, graph.x_dual)[0].x_primal

    expected = call(block, graph.x_primal)
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    found = compiled(other, graph.x_primal)
    assert torch.equal(found, expected)
    for out, each in ((expected, block), (found, other)):
        out.square().sum().backward()
        assert int(each.norm.primal.num_batches_tracked) == 1
    for p, q in zip(block.parameters(), other.parameters(), strict=True):
        assert (p.grad is None) == (q.grad is None)
        assert p.grad is None or torch.equal(p.grad, q.grad)


ROWS, CHANNELS = 300, 7


def _made(rectify, dtype=torch.float64, **options):
    torch.manual_seed(0)
    norm = RectifiedBatchNorm(CHANNELS, rectify=rectify, **options).to(dtype)
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    plain = nn.BatchNorm1d(CHANNELS, **options).to(dtype)
    plain.load_state_dict(norm.state_dict())  # the names are the same
    return norm, plain


def _plainly(plain, x, added, rectify):
    y = plain((x if added is None else x + added).relu())
    return y.relu() if rectify else y


def _inputs(dtype=torch.float64, rows=ROWS):
    torch.manual_seed(1)
    return [(2 * torch.randn(rows, CHANNELS, dtype=dtype) + 0.3).requires_grad_() for _ in "ab"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("training", [True, False])
def test_values_gradients_and_statistics_are_those_of_pytorch(training, dtype):
    bound = tolerance(dtype, terms=ROWS * CHANNELS)
    for summed, rectify in itertools.product([True, False], repeat=2):
        norm, plain = _made(rectify, dtype)
        for _ in range(3):  # of the second and third step, statistics are not those of the first
            found = []
            for owner in (norm.train(training), plain.train(training)):
                x, added = _inputs(dtype)
                given = (x, added if summed else None)
                y = norm(*given) if owner is norm else _plainly(plain, *given, rectify)
                inputs = [x, *[added] * summed, *owner.parameters()]
                slopes = torch.autograd.grad(y.sin().sum(), inputs)
                found.append([y, *slopes, dict(owner.named_buffers())])
            torch.testing.assert_close(*found, **bound)


@pytest.mark.parametrize(
    "options",
    [{"momentum": None}, {"momentum": 0.3, "eps": 0.1}, {"track_running_stats": False},
     {"affine": False}],
    ids=str,
)  # fmt: skip
def test_options_mean_what_they_mean_there(options):
    norm, plain = _made(False, **options)
    bound = tolerance(torch.float64, terms=100)
    for training, rows in ((True, 5), (True, 9), (False, 9)):
        x, _ = _inputs(rows=rows)
        found = norm.train(training)(x), _plainly(plain.train(training), x, None, False)
        torch.testing.assert_close(*found, **bound)
    torch.testing.assert_close(dict(norm.named_buffers()), dict(plain.named_buffers()), **bound)


def test_statistics_that_are_switched_off_stay_and_only_summands_are_kept():
    norm, plain = _made(False)
    for module in (norm, plain):
        module.track_running_stats = False
    x, _ = _inputs()
    torch.testing.assert_close(norm(x), _plainly(plain, x, None, False))
    assert norm.num_batches_tracked == 0
    assert not norm.running_mean.any()
    norm, _ = _made(True)
    x, added = _inputs()
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        norm(x, added)
    large = {t.data_ptr() for t in kept if t.numel() >= x.numel()}
    assert large == {x.data_ptr(), added.data_ptr()}


@pytest.mark.parametrize("shape", [(1, CHANNELS), (3, 2), (2, 2, 2, 2)])
def test_errors_are_those_of_pytorch(shape):
    norm, plain = _made(True)
    x = torch.zeros(shape, dtype=torch.float64)
    with pytest.raises((ValueError, RuntimeError)) as theirs:
        plain(x)
    assert refused(".", norm, x, error=type(theirs.value)) == str(theirs.value)


@pytest.mark.parametrize("wrong", ["running_mean", "running_var", "weight", "bias"])
def test_norms_of_other_sizes_do_not_read_beyond_their_memory(wrong):
    norm, x = RectifiedBatchNorm(CHANNELS).eval(), torch.ones(1, CHANNELS)
    setattr(norm, wrong, type(getattr(norm, wrong))(torch.ones(CHANNELS - 1)))
    with torch.no_grad(), pytest.raises(RuntimeError, match=f"{wrong} "):
        norm(x, overwrite=True)


def test_second_gradients_are_those_of_pytorch_and_a_large_mean_costs_no_digits():
    norm, plain = _made(True)
    found = []
    for call in (norm, lambda x, a: _plainly(plain, x, a, True)):
        x, added = _inputs(rows=20)
        (slope,) = torch.autograd.grad(call(x, added).sin().sum(), x, create_graph=True)
        found.append(torch.autograd.grad(slope.square().sum(), (x, added)))
    torch.testing.assert_close(*found, **tolerance(torch.float64, terms=1000, condition=10))
    norm, _ = _made(False, torch.float32)
    x, _ = _inputs(torch.float32)
    x = x.detach() + 1000
    expected = _made(False)[1](x.double())
    # rounding of the features alone, a ten-millionth of 1000 over their deviation
    torch.testing.assert_close(norm(x).double(), expected, rtol=0, atol=1e-3)

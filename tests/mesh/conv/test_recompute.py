"""Gradient checkpointing: equal bits, statistics counted once, less kept."""

import copy

import pytest
import torch
from torch import nn

from equigeo.mesh import PrimalDualClassifier, PrimalDualGraph, PrimalDualSegmenter
from equigeo.mesh.conv.recompute import recompute
from equigeo.mesh.conv.residual_block import ResidualBlock, checkpoint_blocks
from tests.mesh import shapes
from tests.mesh.definitions import random_graph


def _models():
    torch.manual_seed(0)
    return {
        "classifier": PrimalDualClassifier.preset("default", 3, dropout=0.0),
        "paper": PrimalDualClassifier.preset("paper", 3),
        "segmenter": PrimalDualSegmenter.preset("default", 3, dropout=0.0),
    }


def _run(model):
    """Outputs, gradients and buffers after a step and a half."""
    several = [shapes.lumpy(shapes.icosphere(1), seed=3), shapes.bowl()]
    graph = PrimalDualGraph.batch([model.graph(shape) for shape in several])
    model.train()
    for _ in range(2):
        out = model(graph)
    out.square().sum().backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return out.detach(), gradients, dict(model.named_buffers())


@pytest.mark.parametrize("name", sorted(_models()))
def test_everything_is_equal_to_the_bit(name):
    model = _models()[name]
    other = copy.deepcopy(model)
    checkpoint_blocks(other)
    (out, gradients, buffers), (same, found, counted) = _run(model), _run(other)
    assert torch.equal(out, same)
    assert gradients.keys() == found.keys()
    assert all(torch.equal(gradients[key], found[key]) for key in gradients)
    assert all(torch.equal(buffers[key], counted[key]) for key in buffers)


def test_it_is_switched_off_again():
    model = _models()["classifier"]
    checkpoint_blocks(model)
    assert all(block.checkpoint for block in model.blocks)
    checkpoint_blocks(model, False)
    assert not any(block.checkpoint for block in model.blocks)


def test_the_backward_pass_computes_a_block_again(monkeypatch):
    calls = []
    convolve = ResidualBlock._convolve
    monkeypatch.setattr(
        ResidualBlock, "_convolve", lambda *given: calls.append(1) or convolve(*given)
    )
    model = _models()["classifier"].train()
    checkpoint_blocks(model)
    out = model([shapes.lumpy(shapes.icosphere(1), seed=3), shapes.bowl()])
    assert len(calls) == len(model.blocks)
    out.sum().backward()
    assert len(calls) == 2 * len(model.blocks)
    with torch.no_grad():
        model.eval()(shapes.bowl())
    assert len(calls) == 3 * len(model.blocks)


def test_second_gradients_pass_through():
    norm = nn.BatchNorm1d(2).double().eval()
    x = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: recompute(norm, lambda x: norm(x).tanh(), x), x)


def test_a_model_without_blocks_is_refused():
    with pytest.raises(ValueError, match="must hold a ResidualBlock, got a Linear without"):
        checkpoint_blocks(nn.Linear(2, 2))


def test_second_gradients_of_a_block_are_equal():
    graph = random_graph(0, shape=shapes.bowl())
    torch.manual_seed(0)
    block = ResidualBlock((3, 4), (4, 5), self_term=True).double()
    other = copy.deepcopy(block)
    checkpoint_blocks(other)
    found = []
    for each in (block, other):
        x = graph.x_primal.clone().requires_grad_()
        result, _ = each(graph, x, graph.x_dual)
        loss = result.x_primal.square().sum() + result.x_dual.square().sum()
        (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
        gradient.square().sum().backward()
        counted = {name: buffer.clone() for name, buffer in each.named_buffers()}
        found.append((x.grad, each.first.primal_linear.weight.grad, counted))
    (first, weights, counted), (again, same, counted_again) = found
    assert bool(first.any())
    assert torch.equal(first, again)
    assert torch.equal(weights, same)
    assert all(torch.equal(counted[name], counted_again[name]) for name in counted)


def test_dropout_draws_the_same_twice_and_nothing_more():
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


def test_statistics_return_when_the_second_call_fails():
    norm, calls = nn.BatchNorm1d(1), []

    def fail(x):
        calls.append(1)
        x = norm(x)
        if len(calls) > 1:
            raise RuntimeError("second call")
        return x * x

    buffers = dict(norm.named_buffers())
    out = recompute(norm, fail, torch.tensor([[1.0], [3.0]], requires_grad=True))
    with pytest.raises(RuntimeError, match="second call"):
        out.sum().backward()
    assert all(buffers[name] is buffer for name, buffer in norm.named_buffers())
    assert int(norm.num_batches_tracked) == 1


@pytest.mark.full
def test_a_compiled_block_gives_the_same():
    graph = random_graph(0, shape=shapes.bowl())
    torch.manual_seed(0)
    block = ResidualBlock((3, 4), (4, 5), self_term=True).double()
    other = copy.deepcopy(block)
    checkpoint_blocks(other)

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

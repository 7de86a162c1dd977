"""Gradient checkpointing: equal bits, statistics counted once, less kept."""

import copy

import pytest
import torch
from torch import nn

from equigeo.mesh import PrimalDualClassifier, PrimalDualGraph, PrimalDualSegmenter
from equigeo.mesh.conv.recompute import recompute
from equigeo.mesh.conv.residual_block import ResidualBlock, checkpoint_blocks
from tests.mesh import shapes


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

"""``accelerate`` on e3tools' own blocks, in an environment that has it: ``make test-interop``."""

import copy

import pytest
import torch

from equigeo.interop import accelerate, restore
from equigeo.interop.accelerated.base import Accelerated
from tests.interop.interatomic import CURVATURE, SAME

pytest.importorskip("e3tools", reason="needs e3tools: make test-interop")
pytestmark = pytest.mark.filterwarnings("ignore")  # what e3nn warns of

from bench.rows.interop import BLOCKS, built  # noqa: E402 - behind the skip

NODES, NEIGHBOURS = 6, 4


@pytest.fixture(params=BLOCKS)
def pair(request):
    """A block as it is and accelerated."""
    theirs = built(request.param).double().requires_grad_(True)
    ours = copy.deepcopy(theirs)
    report = accelerate(ours)
    assert report.replaced
    assert not report.kept
    return theirs, ours


def inputs():
    generator = torch.Generator().manual_seed(1)
    pairs = torch.randint(NODES, (2, NODES * NEIGHBOURS), generator=generator)
    edges = pairs.shape[1]
    x, edge, sphere = (
        torch.randn(rows, width, generator=generator, dtype=torch.float64).requires_grad_()
        for rows, width in ((NODES, 112), (edges, 32), (edges, 4))
    )
    return x, pairs, edge, sphere


def relative(ours, theirs):
    """Largest difference by norm, over those of pairs that are not zero."""
    return max(float((a - b).norm() / b.norm()) for a, b in zip(ours, theirs, strict=True))


def test_values_and_all_gradients_are_the_same(pair):
    found = []
    for block in pair:
        x, pairs, edge, sphere = inputs()
        value = block(x, pairs, edge, sphere)
        # not the sum of squares, which a norm at the end keeps
        weight = torch.arange(value.numel(), dtype=value.dtype).view_as(value).cos()
        slopes = torch.autograd.grad((weight * value).sum(), (x, edge, sphere), create_graph=True)
        loss = sum(slope.square().sum() for slope in slopes)
        curvature = torch.autograd.grad(loss, list(block.parameters()), allow_unused=True)
        found.append((value, slopes, curvature))
    (theirs, ours) = found
    assert relative([ours[0], *ours[1]], [theirs[0], *theirs[1]]) < SAME
    names = [dict(block.named_parameters()).keys() for block in pair]
    assert names[0] == names[1]
    unused = [[x is None for x in of[2]] for of in found]
    assert unused[0] == unused[1]
    pairs = [(a, b) for a, b in zip(ours[2], theirs[2], strict=True) if b is not None and b.any()]
    assert pairs
    assert relative(*zip(*pairs, strict=True)) < CURVATURE


def test_blocks_can_be_restored(pair):
    theirs, ours = pair
    assert any(isinstance(module, Accelerated) for module in ours.modules())
    restore(ours)
    assert not any(isinstance(module, Accelerated) for module in ours.modules())
    assert torch.equal(ours(*inputs()), theirs(*inputs()))

"""Accumulated gradients are those of the whole batch, where nothing depends on the others of it."""

import torch
from torch import nn

from equigeo.testing import tolerance
from equigeo.training.cross_entropy import CrossEntropy
from equigeo.training.labelled_source import DividedBatch, LabelledBatch
from equigeo.training.loop.sums_of_parts import sums_of_parts


def _model():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    model.unused = nn.Parameter(torch.ones(2))
    return model


def _batches():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(7, 4, generator=generator, dtype=torch.float64)
    labels = torch.tensor([0, 1, 2, 0, 1, 2, 0])
    whole = LabelledBatch(x, labels, 7)
    parts = [LabelledBatch(x[s], labels[s], 7) for s in (slice(3), slice(3, 5), slice(5, 7))]
    return whole, DividedBatch(tuple(parts))


def test_loss_measure_and_gradients_are_those_of_the_whole():
    objective, model = CrossEntropy(0.1), _model()
    found = []
    for batch in _batches():
        model.zero_grad()
        loss, measure = sums_of_parts(objective, model, batch)
        (3 * loss / batch.total).backward()
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        assert model.unused.grad is None
        found.append([loss.detach(), measure, *grads])
    assert len(found[0]) == 6
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, **tolerance(torch.float64, terms=100))


def test_no_part_is_kept_for_the_backward_pass():
    model, (_, divided) = _model(), _batches()
    loss, _ = sums_of_parts(CrossEntropy(0.1), model, divided)
    node = loss.grad_fn
    sizes = [t.shape for t in node.saved_tensors]
    assert sizes == [p.shape for name, p in model.named_parameters() if name != "unused"]


def test_a_divided_batch_counts_its_samples():
    whole, divided = _batches()
    assert len(divided.labels) == len(whole.labels) == divided.total
    assert divided.to(torch.device("cpu")).parts[1].total == 7

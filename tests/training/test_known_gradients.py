from __future__ import annotations

import pytest
import torch

from equigeo.training.known_gradients import known_gradients


def test_the_gradients_are_those_that_were_given_times_what_arrives():
    x, y = torch.ones(3, requires_grad=True), torch.ones((), requires_grad=True)
    slopes = [torch.arange(3.0), torch.tensor(7.0)]
    value = known_gradients(torch.tensor(2.0), [x, y], slopes)
    assert value.item() == 2.0
    (value * 3).backward()
    assert x.grad.tolist() == [0.0, 3.0, 6.0]
    assert y.grad.item() == 21.0


def test_there_are_no_gradients_of_gradients():
    x = torch.ones(3, requires_grad=True)
    value = known_gradients(torch.tensor(2.0), [x], [torch.ones(3)])
    (slope,) = torch.autograd.grad(value, x, create_graph=True)
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.autograd.grad(slope.sum(), x)

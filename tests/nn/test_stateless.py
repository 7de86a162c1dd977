"""What is stateless still moves with its module, and parameters are refused."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from equigeo.nn.stateless import stateless


def test_buffers_leave_the_state_and_still_follow_casts():
    module = nn.Sequential(nn.Identity())
    module[0].register_buffer("table", torch.ones(2))
    assert stateless(module) is module
    assert not module.state_dict()
    module.load_state_dict({})
    assert module.double()[0].table.dtype == torch.float64


def test_parameters_are_refused_by_name():
    with pytest.raises(ValueError, match=r"Linear must have no parameters, has \['weight', 'bias"):
        stateless(nn.Linear(2, 2))

"""Evaluation mode for the length of a block."""

from __future__ import annotations

import pytest
from torch import nn

from equigeo.nn.evaluating import evaluating


def test_every_part_comes_back_as_it_was():
    module = nn.Sequential(nn.Dropout(), nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 2)))
    module[1][0].eval()  # frozen by the caller
    before = [part.training for part in module.modules()]
    with evaluating(module):
        assert not any(part.training for part in module.modules())
    assert [part.training for part in module.modules()] == before


def test_an_error_inside_changes_nothing():
    module = nn.Dropout()
    with pytest.raises(RuntimeError, match="inside"), evaluating(module):
        raise RuntimeError("inside")
    assert module.training

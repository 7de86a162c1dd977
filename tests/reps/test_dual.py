"""Duals of representations."""

from __future__ import annotations

from equigeo.groups import GLPlus
from equigeo.reps import (
    Dual,
    Irreps,
    TensorRep,
    Trivial,
)


def test_simple_duals_stay_simple():
    group = GLPlus(3)
    assert TensorRep(group, 2, 0, 0.5).dual() == TensorRep(group, 0, 2, -0.5)
    assert isinstance(TensorRep(group, 1, 1).dual(), Dual)
    assert TensorRep(group, 1, 1).dual().dual() == TensorRep(group, 1, 1)
    assert Irreps("1o").dual() == Irreps("1o")
    assert Trivial(group, 2).dual() == Trivial(group, 2)

"""Direct sums of representations: features side by side."""

from __future__ import annotations

import torch

from equigeo.groups import SL
from equigeo.reps import (
    TensorRep,
    Trivial,
)


def test_sums_stand_side_by_side():
    rep = TensorRep(SL(2)) + Trivial(SL(2), 1)
    shear = torch.tensor([[1.0, 2.0], [0.0, 1.0]])
    assert rep.act(shear, torch.tensor([1.0, 1.0, 5.0])).tolist() == [3.0, 1.0, 5.0]
    assert rep.matrix(shear).tolist() == [[1, 2, 0], [0, 1, 0], [0, 0, 1]]

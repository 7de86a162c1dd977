"""What tests of charts share: every group, and coordinates in it."""

import torch
from torch import Tensor

from equigeo.groups import GL, SL, SO, Affine, GLPlus, Group, O, Scaling, Similarity
from equigeo.testing import tolerance
from tests.draws import generator

ORACLE = {"rtol": 0.0, "atol": 1e-11}  # twelve printed digits
F64 = tolerance(torch.float64, terms=16, condition=20)
LINEAR = [kind(n) for kind in (O, SO, SL, GL, GLPlus, Scaling, Similarity) for n in (2, 3)]
GROUPS: list[Group] = [*LINEAR, *map(Affine, LINEAR)]


def coordinates(group: Group, k: int, *, spread: float = 0.6) -> Tensor:
    """Coordinates whose rotations stay clear of half turns."""
    return spread * torch.randn(k, group.dimension, dtype=torch.float64, generator=generator())

"""Groups, coordinates and samples that tests of charts and of samples share."""

import torch
from torch import Tensor

from equigeo.groups import (
    GL,
    SL,
    SO,
    Affine,
    GLPlus,
    Group,
    GroupSamples,
    O,
    Scaling,
    Similarity,
    haar_rotations,
    pair_samples,
    sample_stretches,
)
from equigeo.testing import tolerance
from tests.draws import generator

ORACLE = {"rtol": 0.0, "atol": 1e-11}  # twelve printed digits
F64 = tolerance(torch.float64, terms=16, condition=20)
CLOSE = tolerance(torch.float64, terms=9, condition=20)  # of samples
LINEAR = [kind(n) for kind in (O, SO, SL, GL, GLPlus, Scaling, Similarity) for n in (2, 3)]
GROUPS: list[Group] = [*LINEAR, *map(Affine, LINEAR)]


def coordinates(group: Group, k: int, *, spread: float = 0.6) -> Tensor:
    """Coordinates whose rotations stay clear of half turns."""
    return spread * torch.randn(k, group.dimension, dtype=torch.float64, generator=generator())


STRETCHED: list[Group] = [kind(n) for kind in (SL, GLPlus, Similarity) for n in (2, 3)]


def paired(group: Group, k: int = 30, std: float = 0.4) -> GroupSamples:
    """A stretch of spread ``std`` and a rotation to each of ``k`` samples."""
    source = generator()
    return pair_samples(
        sample_stretches(group, k, std, generator=source),
        haar_rotations(group.n, k, generator=source),
    )

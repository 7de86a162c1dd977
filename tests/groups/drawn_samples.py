"""What tests of samples share: groups that stretch, and pairs drawn from them."""

import torch

from equigeo.groups import (
    SL,
    GLPlus,
    Group,
    GroupSamples,
    Similarity,
    haar_rotations,
    pair_samples,
    sample_stretches,
)
from equigeo.testing import tolerance
from tests.draws import generator

F64 = tolerance(torch.float64, terms=9, condition=20)
STRETCHED: list[Group] = [kind(n) for kind in (SL, GLPlus, Similarity) for n in (2, 3)]


def paired(group: Group, k: int = 30, std: float = 0.4) -> GroupSamples:
    """A stretch of spread ``std`` and a rotation to each of ``k`` samples."""
    source = generator()
    return pair_samples(
        sample_stretches(group, k, std, generator=source),
        haar_rotations(group.n, k, generator=source),
    )

import math

import pytest
import torch
from torch.testing import assert_close

from equigeo.ops import axis_flags
from equigeo.ops.geometry.axis_flags import axis_flags_reference
from equigeo.testing import tolerance

pytestmark = pytest.mark.kernels

CLOUDS = 2000
TOLERANCES = (1e-7, 1e-4, 1e-5)


def clouds(dim, dtype):
    """Null axes, equal spreads, small margins and far clouds, in all combinations."""
    g = torch.Generator().manual_seed(dim)

    def choose(values, *shape):
        return torch.tensor(values)[torch.randint(len(values), shape, generator=g)].to(dtype)

    spread = choose([0.0, 1.0, 1.0 + 1e-6, 2.0, 5.0], CLOUDS, dim).sort(-1, descending=True).values
    margin = choose([-0.5, -3e-6, 0.0, 2e-6, 4e-4, 0.5], CLOUDS, dim)
    centroid = choose([0.0, -1.0, 300.0], CLOUDS, dim)
    ptr = torch.cat([torch.zeros(1), choose([0, 1, 3, 9], CLOUDS)]).cumsum(0).long()
    weight = choose([0.0, 1.0, 2.5], int(ptr[-1]))
    return spread, margin, centroid, ptr, weight


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("signs", [0, 1, 2, 3])
@pytest.mark.parametrize("dim", [1, 2, 3, 5])
def test_flags_are_those_of_the_reference(dim, signs, weighted, dtype):
    *tensors, weight = clouds(dim, dtype)
    weight = weight if weighted else None
    gap, *flags = axis_flags(*tensors, weight, signs, TOLERANCES)
    double = [t.double() if t.is_floating_point() else t for t in tensors]
    want, *others = axis_flags_reference(
        *double, weight if weight is None else weight.double(), signs, *TOLERANCES
    )
    assert_close(gap.double(), want, **tolerance(dtype))
    for mine, theirs in zip(flags, others, strict=True):
        assert torch.equal(mine, theirs)
    ambiguous, degenerate, counts = flags
    assert int(counts[1]) == int((ambiguous.any(-1) | degenerate.any(-1)).sum())
    # the comparison is not of nothing; a single axis depends on nothing
    some = signs == 1 or (signs > 1 and dim > 1)
    assert bool(ambiguous.any()) == some
    assert int(counts[1]) < CLOUDS


def test_clouds_that_are_not_finite_are_counted_and_have_no_flag():
    *tensors, _ = clouds(3, torch.float64)
    for rows in tensors[:3]:
        rows[[4, 7]] = math.nan
    _, ambiguous, degenerate, counts = axis_flags(*tensors, None, 3, TOLERANCES)
    assert int(counts[0]) == 2
    assert not ambiguous[[4, 7]].any()
    assert not degenerate[[4, 7]].any()

"""Samples of stretches and rotations, combined."""

from __future__ import annotations

import pytest
import torch

from equigeo.groups import (
    SL,
    Scaling,
    Similarity,
    equidistant_rotations,
    finite_rotations,
    grid_stretches,
    multiply_samples,
    pair_samples,
)
from tests.groups.samples.drawn_samples import F64


def test_pairs_and_products():
    stretches, rotations = grid_stretches(SL(2), 1.0, 3), equidistant_rotations(9, 0.2)
    pairs = pair_samples(stretches, rotations)
    torch.testing.assert_close(pairs.h, stretches.h @ rotations.h, **F64)
    torch.testing.assert_close(pairs.weight, stretches.weight, **F64)
    every = multiply_samples(stretches, rotations)
    want = (stretches.h[:, None] @ rotations.h).flatten(0, 1)
    torch.testing.assert_close(every.h, want, **F64)
    torch.testing.assert_close(every.weight[:9], stretches.weight[0].expand(9) / 9, **F64)
    torch.testing.assert_close(every.weight.sum(), stretches.weight.sum(), **F64)
    for samples in (pairs, every):
        torch.testing.assert_close(samples.group.coordinates(samples.h), samples.coordinates)
        identity = torch.eye(2).double().expand_as(samples.h)
        torch.testing.assert_close(samples.h @ samples.h_inv, identity, **F64)


def test_scalings_with_rotations_are_similarities():
    samples = multiply_samples(
        grid_stretches(Similarity(3), 0.5, 3), finite_rotations("octahedral")
    )
    assert len(samples) == 72
    assert Similarity(3).contains(samples.h, tol=1e-12).all()


def test_factors_that_do_not_match_are_refused():
    stretches, rotations = grid_stretches(SL(2), 1.0, 3), equidistant_rotations(4)
    with pytest.raises(ValueError, match="got 9 stretches and 4 rotations"):
        pair_samples(stretches, rotations)
    with pytest.raises(ValueError, match=r"need rotations in SO\(2\), got samples of SO\(3\)"):
        multiply_samples(stretches, finite_rotations("dihedral"))
    with pytest.raises(ValueError, match="need rotations in None"):
        multiply_samples(grid_stretches(Scaling(2), 1.0, 3), rotations)
    with pytest.raises(ValueError, match="got some with a rotation"):
        multiply_samples(multiply_samples(stretches, rotations), rotations)
    with pytest.raises(ValueError, match="must agree in type"):
        multiply_samples(stretches, rotations.to(dtype=torch.float32))

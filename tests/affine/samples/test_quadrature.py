"""Weights of samples, and chunks of them."""

from __future__ import annotations

import pytest
import torch

from equigeo.affine import Quadrature
from equigeo.groups import GLPlus, equidistant_rotations, grid_stretches, multiply_samples


def test_chunk_must_be_positive() -> None:
    with pytest.raises(ValueError, match="chunk must be"):
        Quadrature(chunk=0)


def test_weights_are_those_of_the_affine_group_but_for_measures() -> None:
    samples = multiply_samples(grid_stretches(GLPlus(2), 0.5, 2), equidistant_rotations(3))
    of_measures = Quadrature(measure=True).weights(samples)
    torch.testing.assert_close(of_measures.sum(), torch.ones((), dtype=torch.float64))
    of_functions = Quadrature().weights(samples)
    torch.testing.assert_close(of_functions * torch.linalg.det(samples.h), of_measures)
    sums = Quadrature(mean=False, measure=True).weights(samples)
    assert torch.equal(sums, samples.weight)


@pytest.mark.parametrize("chunk", [None, 1, 3, 50])
def test_chunks_are_joined_in_order(chunk: int | None) -> None:
    samples, seen = equidistant_rotations(7), []

    def angles(part):
        seen.append(len(part))
        return part.coordinates.mT

    found = Quadrature(chunk=chunk).in_chunks(angles, samples, dim=1)
    assert torch.equal(found, samples.coordinates.mT)
    assert sum(seen) == 7
    assert max(seen) == min(chunk or 7, 7)

"""Random rotations and orthogonal matrices against the moments of the Haar measure."""

from __future__ import annotations

import math

import pytest
import torch

from equigeo.groups import SO, O


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_haar_moments_of_rotations():
    trace = SO(3).haar(200_000, generator=generator()).diagonal(dim1=1, dim2=2).sum(-1)
    moments = [float((trace**k).mean()) for k in (1, 2, 3, 4)]
    # closed forms 0, 1, 1, 3; five standard errors
    assert moments == pytest.approx([0, 1, 1, 3], abs=5 * 9 / math.sqrt(200_000))
    angle = torch.arccos(((trace - 1) / 2).clamp(-1, 1)).mean()
    # The angle has variance pi^2 / 3 + 2 - (pi / 2 + 2 / pi)^2 = 0.65^2; five standard errors.
    error = 5 * 0.65 / math.sqrt(200_000)
    assert float(angle) == pytest.approx(math.pi / 2 + 2 / math.pi, abs=error)


def test_haar_measure_is_invariant_under_translation():
    g = O(2).haar(100_000, generator=generator())
    assert float(g.mean(0).abs().max()) < 0.02
    error = 5 * 0.5 / math.sqrt(100_000)  # five standard errors
    assert float((torch.linalg.det(g) > 0).double().mean()) == pytest.approx(0.5, abs=error)

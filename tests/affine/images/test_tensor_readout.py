"""Vectors out of scalar channels on a group."""

from __future__ import annotations

import pytest
import torch

from equigeo.affine import TensorReadout
from equigeo.groups import SO, GLPlus, GroupSamples, equidistant_rotations, finite_rotations
from equigeo.reps import Irreps, Representation, TensorRep
from equigeo.testing import tolerance
from tests.affine.images.test_lift_conv import QUARTER, TwoLayers, turn


def test_read_out_gives_vectors_that_turn_with_the_image() -> None:
    samples, x = equidistant_rotations(8), torch.rand(1, 1, 9, 9, dtype=torch.float64)
    layers, readout = TwoLayers(2), TensorReadout(TensorRep(SO(2), up=1))
    vectors = readout(layers(x, samples), samples)
    turned = readout(layers(turn(x), samples), samples)
    expected = vectors.rot90(1, (2, 3)) @ QUARTER.mT
    torch.testing.assert_close(turned, expected, **tolerance(torch.float64, terms=3 * 8 * 9))
    assert float((turned - vectors.rot90(1, (2, 3))).detach().abs().max()) > 1e-3


@pytest.mark.parametrize(
    "rep",
    [
        TensorRep(GLPlus(2), up=1),
        TensorRep(GLPlus(2), up=0, density=-1.0),
        TensorRep(GLPlus(2), up=1, down=1, density=0.5),
    ],
    ids=str,
)
def test_read_out_has_the_representation_that_it_declares(rep: Representation) -> None:
    """Features at one element, and the same features at ``A`` times that element."""
    fixed = torch.Generator().manual_seed(1)
    h, move = GLPlus(2).sample(2, radius=0.6, generator=fixed)
    weight = torch.ones(2, dtype=torch.float64)
    samples = GroupSamples.from_elements(GLPlus(2), torch.stack([h, move @ h]), weight)
    x = torch.rand(3, 2 * rep.dim, 2, 4, 4, dtype=torch.float64, generator=fixed)
    x[:, :, 1] = 0.0
    readout = TensorReadout(rep)
    out, moved = readout(x, samples), readout(x.flip(2), samples)
    close = tolerance(torch.float64, terms=2 * rep.dim)
    torch.testing.assert_close(moved, readout.rep_out.act(move, out), **close)
    assert float((moved - out).abs().max()) > 1e-2


def test_read_out_of_irreps_reads_samples_of_the_rotations_among_o3() -> None:
    samples, rep = finite_rotations("octahedral"), Irreps("0e + 1o + 2e")
    x = torch.rand(2, rep.dim, len(samples), 3, 3, 3, dtype=torch.float64)
    turn = samples.h[5]
    order = (samples.act(turn).h[:, None] - samples.h[None]).abs().amax((2, 3)).argmin(0)
    out, turned = (TensorReadout(rep)(y, samples) for y in (x, x[:, :, order]))
    assert out.shape == (2, 1, 3, 3, 3, rep.dim)
    close = tolerance(torch.float64, terms=len(samples) * rep.dim)
    torch.testing.assert_close(turned, rep.act(turn, out), **close)
    with pytest.raises(ValueError, match=r"samples must be of O\(3\), got GLPlus\(3\)"):
        TensorReadout(rep)(x[:, :, :1], samples_of_stretches())


def samples_of_stretches() -> GroupSamples:
    """One element of GL+(3), which is no rotation."""
    h = torch.eye(3, dtype=torch.float64)[None] * 2
    return GroupSamples.from_elements(GLPlus(3), h, torch.ones(1, dtype=torch.float64))

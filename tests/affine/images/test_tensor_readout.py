"""Vectors out of scalar channels on a group."""

from __future__ import annotations

import torch

from equigeo.affine import TensorReadout
from equigeo.groups import SO, equidistant_rotations
from equigeo.reps import TensorRep
from tests.affine.images.test_lift_conv import QUARTER, TwoLayers, turn


def test_read_out_gives_vectors_that_turn_with_the_image() -> None:
    samples, x = equidistant_rotations(8), torch.rand(1, 1, 9, 9, dtype=torch.float64)
    layers, readout = TwoLayers(2), TensorReadout(TensorRep(SO(2), up=1))
    vectors = readout(layers(x, samples), samples)
    turned = readout(layers(turn(x), samples), samples)
    expected = vectors.rot90(1, (2, 3)) @ QUARTER.mT
    torch.testing.assert_close(turned, expected, rtol=0, atol=1e-12)
    assert float((turned - vectors.rot90(1, (2, 3))).detach().abs().max()) > 1e-3

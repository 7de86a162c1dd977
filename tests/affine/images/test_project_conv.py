"""Projection of features on a group to fields on space."""

from __future__ import annotations

import torch

from equigeo.affine import KernelSpec, ProjectConv
from equigeo.groups import SO, equidistant_rotations
from tests.affine.images.test_lift_conv import TwoLayers, turn


def test_projection_gives_a_field_that_turns_with_the_image() -> None:
    samples, x = equidistant_rotations(8), torch.rand(1, 1, 9, 9, dtype=torch.float64)
    torch.manual_seed(0)
    project = ProjectConv(SO(2), 2, 3, KernelSpec(3), padding=1, padding_mode="circular").double()
    layers = TwoLayers(2)
    field = project(layers(x, samples), samples)
    turned = project(layers(turn(x), samples), samples)
    torch.testing.assert_close(turned, turn(field), rtol=0, atol=1e-12)

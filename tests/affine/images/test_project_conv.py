"""Projection of features on a group to fields on space."""

from __future__ import annotations

import pytest
import torch

from equigeo.affine import KernelSpec, ProjectConv
from equigeo.groups import SO, equidistant_rotations
from equigeo.reps import TensorRep
from equigeo.testing import tolerance
from tests.affine.images.test_lift_conv import QUARTER, TwoLayers, turn

CLOSE = tolerance(torch.float64, terms=3 * 8 * 9)  # channels, rotations and pixels of a kernel


def test_projection_gives_a_field_that_turns_with_the_image() -> None:
    samples, x = equidistant_rotations(8), torch.rand(1, 1, 9, 9, dtype=torch.float64)
    torch.manual_seed(0)
    project = ProjectConv(SO(2), 2, 3, KernelSpec(3), padding=1, padding_mode="circular").double()
    layers = TwoLayers(2)
    field = project(layers(x, samples), samples)
    turned = project(layers(turn(x), samples), samples)
    torch.testing.assert_close(turned, turn(field), **CLOSE)


@pytest.mark.parametrize("up", [1, 2])
def test_projection_writes_fields_of_tensors(up: int) -> None:
    samples, x = equidistant_rotations(8), torch.rand(1, 1, 9, 9, dtype=torch.float64)
    torch.manual_seed(0)
    rep, options = TensorRep(SO(2), up=up), {"padding": 1, "padding_mode": "circular"}
    project = ProjectConv(SO(2), 2, 3, KernelSpec(3), rep_out=rep, **options).double()
    layers = TwoLayers(2)
    field = project(layers(x, samples), samples)
    assert field.shape == (1, 3 * rep.dim, 9, 9)
    turned = project(layers(turn(x), samples), samples).unflatten(1, (3, rep.dim))
    still = turn(field).unflatten(1, (3, rep.dim))
    expected = torch.einsum("de,bce...->bcd...", rep.matrix(QUARTER), still)
    torch.testing.assert_close(turned, expected, **CLOSE)
    assert float((turned - still).detach().abs().max()) > 1e-3

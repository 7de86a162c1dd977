"""Maximum and mean over group and space."""

from __future__ import annotations

import pytest
import torch

from equigeo.affine import GroupPool
from equigeo.groups import GLPlus
from tests.affine.points.test_point_group_conv import EXACT, draw, random


def test_means_of_measures_have_no_determinants() -> None:
    samples, x = draw(GLPlus(3)), random(2, 4, 3, 9)
    expected = torch.einsum("bcnp,n->bc", x, samples.mean_weight) / 9
    torch.testing.assert_close(GroupPool("mean", measure=True)(x, samples), expected, **EXACT)
    of_functions = GroupPool("mean")(x, samples)
    assert float((of_functions - expected).abs().max()) > 1e-3


@pytest.mark.parametrize("kind", ["max", "mean"])
def test_fields_keep_their_pixels(kind: str) -> None:
    samples, x = draw(GLPlus(3)), random(2, 4, 3, 5, 6)
    field = GroupPool(kind, space=False)(x, samples)
    assert field.shape == (2, 4, 5, 6)
    if kind == "max":
        assert torch.equal(field, x.amax(2))
    else:
        expected = torch.einsum("bcnij,n->bcij", x, samples.mean_weight)
        torch.testing.assert_close(field, expected, **EXACT)

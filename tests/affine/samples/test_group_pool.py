"""Maximum and mean over group and space."""

from __future__ import annotations

import pytest
import torch

from equigeo.affine import GroupPool, PoolingWindowWarning
from equigeo.groups import GLPlus, equidistant_rotations
from tests.affine.points.test_point_group_conv import EXACT, draw, random


@pytest.mark.filterwarnings("ignore::equigeo.affine.PoolingWindowWarning")
def test_means_of_measures_have_no_determinants() -> None:
    samples, x = draw(GLPlus(3)), random(2, 4, 3, 9)
    expected = torch.einsum("bcnp,n->bc", x, samples.mean_weight) / 9
    torch.testing.assert_close(GroupPool("mean", measure=True)(x, samples), expected, **EXACT)
    of_functions = GroupPool("mean")(x, samples)
    assert float((of_functions - expected).abs().max()) > 1e-3


@pytest.mark.filterwarnings("ignore::equigeo.affine.PoolingWindowWarning")
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


def test_mean_over_a_window_is_told_of_and_others_are_not() -> None:
    samples, x = draw(GLPlus(3)), random(2, 4, 3, 5, 6)
    with pytest.warns(PoolingWindowWarning, match="vanish there") as caught:
        GroupPool("mean")(x, samples)
    warning = caught[0].message
    assert isinstance(warning, PoolingWindowWarning)
    assert warning.inputs == pytest.approx(samples.radius)
    GroupPool("max")(x, samples)
    GroupPool("mean")(random(2, 4, 8, 5, 6), equidistant_rotations(8))

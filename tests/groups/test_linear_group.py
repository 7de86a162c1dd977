"""Exponentials against the values of the specification, inverses and determinants."""

from __future__ import annotations

import pytest
import torch

from equigeo.groups import GL, SL, SO, Affine, GLPlus, O, Scaling, Similarity
from equigeo.testing import tolerance

ORACLE = {"rtol": 0.0, "atol": 1e-12}  # twelve decimals
CLOSE = tolerance(torch.float64, terms=16, condition=20)  # stretches multiply condition numbers


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_exponential_oracles():
    x = torch.tensor([[0.3, -0.5], [0.2, 0.1]], dtype=torch.float64)
    want = [[1.287167021292, -0.601581992514], [0.240632797005, 1.046534224286]]
    torch.testing.assert_close(GLPlus(2).exp(x), x.new_tensor(want), **ORACLE)
    lifted = torch.zeros(3, 3, dtype=torch.float64)
    lifted[:2, :2], lifted[:2, 2] = x, x.new_tensor([1.0, 2.0])
    translation = Affine(GLPlus(2)).exp(lifted)[:2, 2]
    want = x.new_tensor([0.5788532801, 2.1793058955])
    torch.testing.assert_close(translation, want, rtol=0, atol=1e-10)  # ten decimals


def test_rodrigues_oracle_fixes_the_order_of_the_generators():
    omega = torch.tensor([0.1, -0.2, 0.3], dtype=torch.float64)
    x = torch.einsum("d,dij->ij", omega, SO(3).generators())
    want = [
        [0.935754803278, -0.302932713403, -0.180540076694],
        [0.283164960565, 0.950580617906, -0.127334574918],
        [0.210191705951, 0.068031316405, 0.975290308953],
    ]
    torch.testing.assert_close(SO(3).exp(x), x.new_tensor(want), **ORACLE)


@pytest.mark.parametrize("kind", [O, SO, SL, GL, GLPlus, Scaling, Similarity])
@pytest.mark.parametrize("n", [2, 3])
def test_inverses_and_determinants_from_coordinates(kind, n):
    group = kind(n)
    c = 0.5 * torch.randn(20, group.dimension, dtype=torch.float64, generator=generator())
    g = group.from_coordinates(c)
    torch.testing.assert_close(group.inverse_from_coordinates(c), group.inverse(g), **CLOSE)
    torch.testing.assert_close(group.log_determinant(c), torch.linalg.det(g).log(), **CLOSE)
    with pytest.raises(ValueError, match=r"coordinates of .* are"):
        group.inverse_from_coordinates(c[:, :0])


@pytest.mark.parametrize("kind", [O, SO, SL, GL, GLPlus, Similarity])
def test_rotations_of_four_dimensions_have_no_chart(kind):
    group = kind(4)
    c = torch.zeros(group.dimension, dtype=torch.float64)
    calls = (group.from_coordinates, group.inverse_from_coordinates)
    for call, x in [*((call, c) for call in calls), (group.coordinates, group.identity())]:
        with pytest.raises(ValueError, match=r"\(4\) has no coordinates: .* got n = 4"):
            call(x)
    assert Scaling(4).coordinates(group.identity()).tolist() == [0.0]

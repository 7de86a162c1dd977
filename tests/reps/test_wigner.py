"""Wigner D and 3j symbols: defining identities, and the values of e3nn."""

import itertools
import math
from functools import partial

import pytest
import torch
from e3nn import o3
from torch import Tensor

from equigeo.groups import SO, O, rotation_exp, rotation_log
from equigeo.reps import Irreps, wigner_3j, wigner_d
from equigeo.reps.wigner import so3_generators_table
from equigeo.testing import tolerance
from tests.draws import double_precision, generator
from tests.wrong_inputs import refused

DEGREES = pytest.mark.parametrize("l", [0, 1, 2, 3, 4, 6, 8, 11])
EXACT = {"rtol": 0.0, "atol": 1e-13}
ARCCOS = (1 - 0.99**2) ** -0.5  # slope where e3nn takes its angles from cosines below 0.99


def rotate(axis: Tensor, angle: Tensor | float) -> Tensor:
    """Rodrigues' formula, written with half angles."""
    axis = axis / axis.norm(dim=-1, keepdim=True)
    k = torch.einsum("...i,ijk->...jk", axis, SO(3).generators())
    half = torch.as_tensor(angle, dtype=torch.float64)[..., None, None] / 2
    return torch.eye(3).double() + 2 * half.sin() * half.cos() * k + 2 * half.sin() ** 2 * k @ k


def hard_rotations() -> Tensor:
    """Random ones, half turns, poles of Euler angles, neighbors of these, the identity."""
    draws = generator()
    axes = torch.randn(12, 3, dtype=torch.float64, generator=draws)
    units = torch.eye(3, dtype=torch.float64)
    half_turns = 2 * axes[:, :, None] * axes[:, None, :] / axes.square().sum(1)[:, None, None]
    angles = [math.pi - 1e-5, math.pi - 1e-9, 1e-3, 1e-7, 1e-9, 1e-12, 2.0]
    near_pole = [rotate(units[1], 0.7) @ rotate(units[0], t) for t in (1e-8, 1e-4, math.pi - 1e-8)]
    return torch.cat(
        [
            SO(3).haar(30, generator=draws),
            half_turns - torch.eye(3),
            2 * units[:, :, None] * units[:, None, :] - torch.eye(3),
            *[rotate(torch.cat([axes[:4], units]), t) for t in angles],
            rotate(units[1], torch.linspace(-3, 3, 7).double()),
            torch.stack(near_pole),
            SO(3).special_elements(),
            torch.eye(3, dtype=torch.float64)[None],
        ]
    )


@DEGREES
def test_d_follows_yxy_euler_angles_poles_included(l):
    units = torch.eye(3, dtype=torch.float64)
    assert torch.equal(wigner_d(l, units), torch.eye(2 * l + 1, dtype=torch.float64))
    x, y = units[:2]
    gx, gy, _ = so3_generators_table(l)
    alpha = torch.linspace(-3, 3, 5, dtype=torch.float64)
    for beta in (0.0, 1e-9, 0.4, math.pi / 2, math.pi - 1e-9, math.pi):
        r = rotate(y, alpha) @ rotate(x, beta) @ rotate(y, alpha.flip(0) * 0.6)
        exponents = [alpha[:, None, None] * gy, beta * gx, alpha.flip(0)[:, None, None] * 0.6 * gy]
        first, second, third = (torch.linalg.matrix_exp(e) for e in exponents)
        torch.testing.assert_close(wigner_d(l, r), first @ second @ third, **EXACT)


@DEGREES
def test_spherical_harmonics_turn_with_d(l):
    r = hard_rotations()
    v = torch.randn(20, 3, dtype=torch.float64, generator=generator(2))
    turned = o3.spherical_harmonics(l, v @ r.mT, normalize=True, normalization="norm")
    still = o3.spherical_harmonics(l, v, normalize=True, normalization="norm")
    bound = tolerance(torch.float64, 2 * l + 1)
    torch.testing.assert_close(turned, still @ wigner_d(l, r).mT, **bound)
    if l == 1:
        torch.testing.assert_close(wigner_d(1, r), r, **EXACT)


@double_precision()
def test_irreps_agree_with_e3nn_on_improper_elements():
    text = "2x0e+0o+3x1o+1e+2x2o+2e+3o"
    g = O(3).haar(50, generator=generator(3))
    g = g[g[:, 1, 1].abs() < 0.99]
    assert (torch.linalg.det(g) < 0).any()
    want = o3.Irreps(text).D_from_matrix(g)
    bound = tolerance(torch.float64, 7, condition=ARCCOS)
    torch.testing.assert_close(Irreps(text).matrix(g), want, **bound)


def test_float32_and_single_rotations_lose_no_precision():
    r = hard_rotations()
    got = wigner_d(8, r.float())
    assert got.dtype == torch.float32
    torch.testing.assert_close(got, wigner_d(8, r).float(), **tolerance(torch.float32, 17))
    w = torch.tensor([0.48, -0.6, 0.64], dtype=torch.float64)
    r = rotation_exp(torch.logspace(-4, 0, 41, dtype=torch.float64)[:, None] * w)
    for l in (1, 3):
        each = torch.stack([wigner_d(l, one) for one in r])
        torch.testing.assert_close(each, wigner_d(l, r), **tolerance(torch.float64, 2 * l + 1))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_matrices_that_are_not_orthogonal_are_refused(dtype):
    rotation = SO(3).haar(1, generator=generator())[0]
    irreps, x = Irreps("1o + 2e"), torch.ones(8, dtype=dtype)
    of = {
        "wigner_d": lambda g: wigner_d(2, g),
        "matrix": irreps.matrix,
        "act": lambda g: irreps.act(g, x),
        "rotation_log": lambda g: rotation_log(g.double()),
    }
    stretch = torch.diag(torch.tensor([1.05, 1.0, 1.0], dtype=torch.float64))
    for call in of.values():
        call(rotation.to(dtype))  # rounding is no fault
        for wrong in (2 * rotation, rotation @ stretch, rotation + 0.1):
            with pytest.raises(ValueError, match="r must be orthogonal: 1 of 2 are not, the first"):
                call(torch.stack([rotation, wrong]).to(dtype))
    for call in (of["matrix"], of["act"]):
        call(-rotation.to(dtype))
        refused("r must be orthogonal: 1 of 1 are not", call, -2 * rotation.to(dtype))


def test_d_is_differentiable_everywhere():
    r = torch.cat([hard_rotations()[:3], torch.eye(3, dtype=torch.float64)[None]])
    axis = torch.tensor([0.3, -0.2, 0.5]).double()
    x, gx = (torch.tensordot(axis, g, 1) for g in (SO(3).generators(), so3_generators_table(3)))

    def curve(t: Tensor) -> Tensor:
        return wigner_d(3, r @ torch.linalg.matrix_exp(t * x))

    got = torch.autograd.functional.jacobian(curve, torch.zeros((), dtype=torch.float64))
    torch.testing.assert_close(got, wigner_d(3, r) @ gx, **tolerance(torch.float64, 7))


def test_wrong_arguments_raise_and_results_belong_to_the_caller():
    refused("must have positive determinant", wigner_d, 1, -torch.eye(3))
    refused("l must not be negative, got -1", wigner_d, -1, torch.eye(3))
    refused(r"rotation must be \(\.\.\., 3, 3\), got \(2, 2\)", wigner_d, 1, torch.eye(2))
    refused(r"degrees must not be negative, got \(1, -1, 1\)", wigner_3j, 1, -1, 1)
    assert torch.equal(wigner_3j(1, 1, 3), torch.zeros(3, 3, 7, dtype=torch.float64))
    Irreps("2e").generators().zero_()
    wigner_3j(1, 1, 1).zero_()
    assert Irreps("2e").generators().any()
    assert wigner_3j(1, 1, 1).any()


@DEGREES
def test_generators_are_skew_and_close_like_rotations(l):
    g = so3_generators_table(l)
    assert torch.equal(g, -g.mT)
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        torch.testing.assert_close(g[i] @ g[j] - g[j] @ g[i], g[k], rtol=0, atol=1e-13 * (l + 1))
    casimir = -l * (l + 1) * torch.eye(2 * l + 1, dtype=torch.float64)
    bound = tolerance(torch.float64, 2 * l + 1)
    torch.testing.assert_close((g @ g).sum(0), casimir, **bound)


TRIPLES = [
    (l1, l2, l3)
    for l1, l2 in itertools.product(range(5), repeat=2)
    for l3 in range(abs(l1 - l2), l1 + l2 + 1)
]


def close(found, want, terms, degrees):
    named = partial("{}: {}".format, degrees)
    torch.testing.assert_close(found, want, msg=named, **tolerance(torch.float64, terms))


def test_symbols_equal_the_table_of_e3nn():
    for degrees in [*TRIPLES, (11, 11, 11), (10, 9, 5), (11, 3, 8)]:
        want = o3.wigner_3j(*degrees, dtype=torch.float64)
        close(wigner_3j(*degrees), want, 9 if max(degrees) < 9 else 23, degrees)


@pytest.mark.parametrize("degrees", [(1, 1, 1), (2, 3, 4), (12, 7, 9), (20, 20, 33)], ids=str)
def test_is_invariant_under_generators(degrees):
    c = wigner_3j(*degrees)
    g1, g2, g3 = (so3_generators_table(l) for l in degrees)
    moved = (
        torch.einsum("ijk,aip->apjk", c, g1)
        + torch.einsum("ijk,ajq->aiqk", c, g2)
        + torch.einsum("ijk,akr->aijr", c, g3)
    )
    assert moved.abs().max() < 1e-13 * max(degrees)
    close(c.square().sum(), torch.ones((), dtype=c.dtype), c.numel(), degrees)


def test_sparsity_follows_the_selection_rule_of_components():
    counts = [int(wigner_3j(l, l, l).count_nonzero()) for l in range(1, 9)]
    assert counts == [6, 25, 42, 97, 126, 217, 258, 361]
    singles = {(1, 1, 2): 11, (1, 2, 2): 16, (1, 2, 3): 21, (2, 2, 3): 28, (2, 2, 4): 37}
    assert {d: int(wigner_3j(*d).count_nonzero()) for d in singles} == singles
    for l1, l2, l3 in TRIPLES:
        for i, j, k in wigner_3j(l1, l2, l3).nonzero().tolist():
            m1, m2, m3 = i - l1, j - l2, k - l3
            assert abs(m3) in {abs(m1) + abs(m2), abs(abs(m1) - abs(m2))}
            assert ((m1 < 0) + (m2 < 0) + (m3 < 0) - l1 - l2 - l3) % 2 == 0

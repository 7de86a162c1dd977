"""Frames of edges: oracles 2 and 15 of the specification."""

import math

import pytest
import torch
from torch.testing import assert_close

from equigeo.groups import SO
from equigeo.ops.edges.rotate_edges import (
    edge_frames,
    rotate_edges,
    rotate_edges_back,
    wigner_matrices,
)
from equigeo.ops.edges.so2_conv import torque
from equigeo.reps import Irreps
from equigeo.reps.wigner import so3_generators_table, wigner_d
from equigeo.testing import tolerance
from tests.wrong_inputs import refused

pytestmark = pytest.mark.kernels

F64 = torch.float64
POLES = [[0.0, 1.0, 0.0], [0.0, -1.0, 0.0], [1e-12, -1.0, 0.0], [0.3, 1e-9, 0.4], [0.3, -1e-9, 0.4]]


def directions() -> torch.Tensor:
    some = torch.randn(40, 3, dtype=F64, generator=torch.Generator().manual_seed(0))
    return torch.cat([some, torch.tensor(POLES, dtype=F64)])


def test_the_frame_of_a_known_direction():
    frame = edge_frames(torch.tensor([0.36, 0.48, 0.80], dtype=F64))
    wanted = [
        [0.9124324324, -0.36, -0.1945945946],
        [0.36, 0.48, 0.80],
        [-0.1945945946, -0.80, 0.5675675676],
    ]
    # half a unit of the tenth decimal, the last of the specification
    assert_close(frame, torch.tensor(wanted, dtype=F64), rtol=0, atol=5e-11)


def test_frames_are_rotations_that_take_edges_to_the_y_axis():
    vectors = 3 * directions()
    frames = edge_frames(vectors)
    unit = vectors / vectors.norm(dim=1, keepdim=True)
    y = torch.tensor([0.0, 1.0, 0.0], dtype=F64).expand(len(vectors), 3)
    # sums of three products of numbers up to one, of two roundings each: 4.5 units of 2.2e-16
    assert_close((frames @ unit[..., None])[..., 0], y, rtol=0, atol=1e-15)
    assert_close(torch.linalg.det(frames), y[:, 1], **tolerance(F64, 3))
    one = torch.eye(3, dtype=F64).expand_as(frames)
    assert_close(frames @ frames.mT, one, **tolerance(F64, 3))


@pytest.mark.parametrize("pole", POLES, ids=str)
def test_frames_have_derivatives_everywhere(pole):
    vector = torch.tensor(pole, dtype=F64)
    jacobian = torch.func.jacrev(torch.func.jacrev(edge_frames))(vector)
    assert jacobian.isfinite().all()
    # |u| = 1, and k is at most 1: no derivative is large.
    assert jacobian.abs().max() < 20 / vector.norm() ** 2


slope_of = torch.autograd.functional.jvp


def test_some_entries_of_degree_two():
    x = so3_generators_table(2)[0]
    wanted = torch.tensor([-1.7320508076, -1.0, 1.0], dtype=F64)
    # half a unit of the tenth decimal, the last of the specification
    assert_close(torch.stack([x[2, 3], x[3, 4], x[0, 1]]), wanted, rtol=0, atol=5e-11)


def test_they_are_derivatives_of_the_recurrence_at_no_rotation():
    hats = so3_generators_table(1)
    one = torch.eye(3, dtype=F64)
    for l in range(5):
        for k in range(3):
            _, slope = slope_of(lambda r, l=l: wigner_matrices(r, l)[l], (one,), (hats[k],))
            assert_close(slope, so3_generators_table(l)[k], **tolerance(F64, 2 * l + 1))


def test_a_torque_is_the_derivative_of_a_product_by_a_rotation():
    terms = ((2, 1, False), (3, 2, True), (0, 1, False))
    generator = torch.Generator().manual_seed(0)
    left, right = torch.randn(2, 4, 21, dtype=F64, generator=generator)
    one = torch.eye(3, dtype=F64)

    def product(rotation: torch.Tensor) -> torch.Tensor:
        d = wigner_matrices(rotation, 2)
        turned = [d[1] @ right[:, :6].view(4, 3, 2), d[2] @ right[:, 6:].view(4, 5, 3)]
        return (left * torch.cat([part.flatten(1) for part in turned], dim=1)).sum(1)

    found = torque(left, right, terms)
    for k in range(3):
        _, slope = slope_of(product, (one,), (so3_generators_table(1)[k],))
        assert_close(found[:, k], slope, **tolerance(F64, 21))


def test_they_are_those_of_the_representation():
    frames = edge_frames(directions())
    for lmax in (0, 2, 10):
        found = wigner_matrices(frames, lmax)
        assert [d.shape[-1] for d in found] == [2 * l + 1 for l in range(lmax + 1)]
        for l, d in enumerate(found):
            assert_close(d, wigner_d(l, frames), **tolerance(F64, 2 * l + 1))


def test_a_roll_turns_each_order_by_itself():
    t = 0.7
    roll = [[math.cos(t), 0, math.sin(t)], [0, 1, 0], [-math.sin(t), 0, math.cos(t)]]
    for l, d in enumerate(wigner_matrices(torch.tensor(roll, dtype=F64), 4)):
        wanted = torch.zeros_like(d)
        for m in range(-l, l + 1):
            wanted[l + m, l + m] = math.cos(m * t)
            wanted[l + m, l - m] -= math.sin(m * t)
        assert_close(d, wanted, **tolerance(F64, 2 * l + 1))


def test_two_rows_of_a_known_frame():
    d = wigner_matrices(edge_frames(torch.tensor([0.36, 0.48, 0.80], dtype=F64)), 2)[2]
    wanted = [
        [0.0486486486, -0.3814054054, -0.6651075101, -0.3675675676, 0.5241081081],
        [0.0671088386, 0.4841513514, 0.4420193661, -0.5241081081, 0.5394658875],
    ]
    # half a unit of the tenth decimal, the last of the specification
    assert_close(d[3:], torch.tensor(wanted, dtype=F64), rtol=0, atol=5.1e-11)


def test_single_precision_is_lost_at_no_direction():
    near = torch.tensor([[1e-4, 1.0, 0.0], [0.0, -1.0, 1e-3], [0.0, 1.0, 0.0]], dtype=F64)
    vectors = torch.cat([directions(), near])
    exact = wigner_matrices(edge_frames(vectors), 10)
    for mine, d in zip(wigner_matrices(edge_frames(vectors.float()), 10), exact, strict=True):
        # The table of the specification has 2e-6 for degree 10, of other directions.
        assert_close(mine.double(), d, rtol=0, atol=3e-6)


def features(lmax: int, edges: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(lmax)
    return torch.randn(edges, (lmax + 1) ** 2, 2, dtype=F64, generator=generator)


def test_components_are_sorted_by_order():
    vectors = torch.tensor([[0.0, 1.0, 0.0]], dtype=F64)  # whose frame changes nothing
    x = torch.arange(9, dtype=F64).view(1, 9, 1)
    assert rotate_edges(x, vectors).flatten().tolist() == [0, 2, 6, 3, 7, 1, 5, 8, 4]
    assert rotate_edges(x, vectors, mmax=1).flatten().tolist() == [0, 2, 6, 3, 7, 1, 5]


@pytest.mark.parametrize("mmax", [None, 5, 1, 0])
def test_the_way_back_is_the_transpose_and_the_inverse_of_what_is_kept(mmax):
    vectors = directions()
    x = features(3, len(vectors))
    z = rotate_edges(x, vectors, mmax)
    back = rotate_edges_back(z, vectors, 3, mmax)
    assert_close((back * x).sum(), z.square().sum())
    assert_close(rotate_edges(back, vectors, mmax), z)
    if mmax is None:
        assert_close(back, x)


def test_functions_that_commute_with_rolls_are_equivariant():
    vectors, rep = directions(), Irreps("2x0e+2x1o+2x2e", "ir_mul").restrict(SO(3))
    x = features(2, len(vectors))
    g = edge_frames(torch.tensor([0.3, -0.5, 0.8], dtype=F64))
    turned = rep.act(g, x.flatten(1)).view_as(x)

    def gated(x, vectors):
        z = rotate_edges(x, vectors)
        return rotate_edges_back(z * z[:, :1].sigmoid(), vectors, 2)

    def pointwise(x, vectors):
        return rotate_edges_back(rotate_edges(x, vectors).relu(), vectors, 2)

    for function, holds in ((gated, True), (pointwise, False)):
        got = function(turned, vectors @ g.mT)
        want = rep.act(g, function(x, vectors).flatten(1)).view_as(x)
        assert torch.allclose(got, want, **tolerance(F64, 9)) == holds


def test_gradients_are_exact_at_the_poles():
    vectors = directions()[-5:].requires_grad_()
    x = features(2, 5).requires_grad_()

    def gated(x, vectors):
        z = rotate_edges(x, vectors, 1)
        return rotate_edges_back(z * z[:, :1].sigmoid(), vectors, 2, 1)

    poles = vectors[:2].detach().requires_grad_()
    assert torch.autograd.gradcheck(gated, (x[:2], poles))
    assert torch.autograd.gradgradcheck(gated, (x[:2], poles))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_is_rounded_once(dtype):
    x, vectors = (torch.randn(20, *shape).to(dtype) for shape in ((121, 2), (3,)))
    for rotate in (rotate_edges, lambda z, vectors: rotate_edges_back(z, vectors, 10)):
        found, want = rotate(x, vectors), rotate(x.float(), vectors.float())
        # One rounding; the last bit is decided otherwise where float32 itself rounds otherwise.
        torch.testing.assert_close(found.float(), want, rtol=torch.finfo(dtype).eps, atol=1e-5)
        with torch.autocast("cpu", dtype):
            assert rotate(x, vectors).equal(want)


def test_wrong_arguments_are_named():
    x, vectors = torch.zeros(2, 9, 1), torch.ones(2, 3)
    refused(r"\(lmax \+ 1\)\^2 components, got 8", rotate_edges, x[:, :8], vectors)
    refused(r"vectors must be \(2, 3\), got \(3, 3\)", rotate_edges, x, torch.ones(3, 3))
    refused(r"x must be \(edges, components, channels\)", rotate_edges, x[0], vectors)
    refused("dtype of x", rotate_edges, x, vectors.double(), error=TypeError)
    refused("must not be negative, got -1", rotate_edges, x, vectors, -1)
    with pytest.raises(ValueError, match="z must have 7 components for lmax 2 and mmax 1, got 9"):
        rotate_edges_back(x, vectors, 2, 1)
    refused("lmax must be from 0 to 10, got 11", rotate_edges_back, x, vectors, 11)

"""Generators and torques: oracle 5 of the specification."""

import pytest
import torch
from torch.testing import assert_close

from equigeo.ops.edges.torque import generators, torque
from equigeo.ops.edges.wigner_recurrence import wigner_matrices
from equigeo.reps.so3_generators import so3_generators
from equigeo.testing import tolerance

pytestmark = pytest.mark.kernels

F64 = torch.float64
slope_of = torch.autograd.functional.jvp


@pytest.mark.parametrize("l", range(9))
def test_generators_are_those_of_the_representation(l):
    assert_close(generators(l), so3_generators(l), **tolerance(F64, 2 * l + 1))


def test_some_entries_of_degree_two():
    x = generators(2)[0]
    wanted = torch.tensor([-1.7320508076, -1.0, 1.0], dtype=F64)
    # half a unit of the tenth decimal, the last of the specification
    assert_close(torch.stack([x[2, 3], x[3, 4], x[0, 1]]), wanted, rtol=0, atol=5e-11)


def test_they_are_derivatives_of_the_recurrence_at_no_rotation():
    hats = generators(1)
    one = torch.eye(3, dtype=F64)
    for l in range(5):
        for k in range(3):
            _, slope = slope_of(lambda r, l=l: wigner_matrices(r, l)[l], (one,), (hats[k],))
            assert_close(slope, generators(l)[k], **tolerance(F64, 2 * l + 1))


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
        _, slope = slope_of(product, (one,), (generators(1)[k],))
        assert_close(found[:, k], slope, **tolerance(F64, 21))

"""Frames of edges: oracles 2 and 15 of the specification."""

import pytest
import torch
from torch.testing import assert_close

from equigeo.ops.edges.edge_frames import edge_frames
from equigeo.testing import tolerance

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

"""Frames drawn by weight."""

import pytest
import torch
from torch.testing import assert_close

from equigeo import mds
from equigeo.testing import tolerance
from tests.mds.clouds import QUIET, box, generator, generic


def fuzzy_boxes(count: int) -> torch.Tensor:
    """Boxes with distinct edges, symmetric but for noise."""
    noise = torch.randn(count, 8, 3, generator=generator(), dtype=torch.float64)
    return box(6, 4, 2) + 1e-3 * noise


def test_every_cloud_gets_one_of_its_frames_by_weight():
    x = fuzzy_boxes(1).expand(4000, -1, -1)
    found = mds.frames(x, kind="frames", options=QUIET)
    y = mds.sample_frame(found, generator=generator())
    assert y.shape == x.shape
    same = (found.y == y).all(-1).all(-1)
    assert bool((same.sum(0) == 1).all())
    five_errors = 5 * (1 / 8 * 7 / 8 / 4000) ** 0.5  # standard ones, of a share of 4000 draws
    want = torch.full((8,), 1 / 8).double()
    assert_close(same.double().mean(1), want, rtol=0, atol=five_errors)
    assert torch.equal(y, mds.sample_frame(found, generator=generator()))
    assert not torch.equal(y, mds.sample_frame(found, generator=generator(1)))


def test_frames_of_weight_zero_are_never_drawn():
    x = torch.stack([generic(8), box(6, 4, 2)])  # one frame, and eight
    found = mds.frames(x, kind="joint", options=QUIET)
    assert len(found) == 8
    for seed in range(20):
        y = mds.sample_frame(found, generator=generator(seed))
        assert torch.equal(y[0], found.y[0, 0])


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)], ids=str)
def test_batch_axes_are_kept(batch):
    x = generic(12, batch=batch)
    y = mds.sample_frame(mds.frames(x, kind="frames", options=QUIET), generator=generator())
    assert y.shape == x.shape
    want = mds.embed(x, options=QUIET).y
    assert_close(y.abs(), want.abs(), **tolerance(torch.float64, 12))


def test_ragged_clouds_turn_as_a_whole():
    x, ptr = torch.cat([generic(12), generic(7, seed=1)]), torch.tensor([0, 12, 19])
    found = mds.frames(x, kind="frames", ptr=ptr, options=QUIET)
    y = mds.sample_frame(found, generator=generator(2))
    for begin, end in ((0, 12), (12, 19)):
        same = (found.y[:, begin:end] == y[begin:end]).all(-1).all(-1)
        assert int(same.sum()) == 1

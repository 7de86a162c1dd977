"""Clouds of a batch: numbered by ``batch``, cut by ``ptr``, or one by one."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from equigeo import mds, points
from equigeo.mds.frames import KINDS
from equigeo.testing import tolerance
from tests.mds.clouds import QUIET, generic, motions
from tests.wrong_inputs import refused

SIZES = (7, 12, 9)
CLOUDS = [generic(size, seed=k) for k, size in enumerate(SIZES)]
ROWS = torch.cat(CLOUDS)
BATCH = torch.arange(3).repeat_interleave(torch.tensor(SIZES))
PTR = torch.tensor([0, *SIZES]).cumsum(0)
CLOSE = tolerance(torch.float64, terms=max(SIZES))
# The largest eigenvalue is up to 12 times as large as a gap.
TURNED = tolerance(torch.float64, terms=max(SIZES), condition=12)


class PerCloud(nn.Module):
    """A network in the way of PyTorch Geometric: it sums over the clouds that ``batch`` numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 4).double()

    def forward(self, pos: Tensor, batch: Tensor | None = None) -> Tensor:
        values = self.layer(pos).sin()
        if batch is None:
            return values.sum(-2)
        return values.new_zeros(int(batch.max()) + 1, 4).index_add(0, batch, values)


def turned_first() -> Tensor:
    g = motions(1, seed=5)[0]
    return torch.cat([CLOUDS[0] @ g.mT + 3, *CLOUDS[1:]])


RAGGED = pytest.mark.parametrize("given", [{"batch": BATCH}, {"ptr": PTR}], ids=["batch", "ptr"])


@RAGGED
@pytest.mark.parametrize("kind", KINDS)
def test_frames_of_a_batch_are_those_of_its_clouds(given, kind):
    def average(x, **given):
        frames = mds.frames(x, kind=kind, options=QUIET, **given)
        return mds.frame_average(lambda y: (y + 0.3).sin().cumsum(-1), frames)

    want = torch.cat([average(cloud) for cloud in CLOUDS])
    assert_close(average(ROWS, **given), want, **CLOSE)


@pytest.mark.parametrize("kind", ["skew", "joint", "frames"])
@pytest.mark.parametrize("call", ["by name", "by position", "by ptr"])
def test_turning_one_cloud_of_a_batch_changes_nothing(kind, call):
    model = mds.Invariant(PerCloud(), kind=kind, options=QUIET)

    def run(x: Tensor) -> Tensor:
        if call == "by name":
            return model(x, batch=BATCH)
        if call == "by position":
            return model(x, BATCH)
        return model(x, BATCH, ptr=PTR)

    found = run(ROWS)
    want = torch.stack([model(cloud) for cloud in CLOUDS])
    assert_close(found, want, **CLOSE)
    moved = run(turned_first())
    assert_close(moved[1:], found[1:], rtol=0, atol=0)
    assert_close(moved[0], found[0], **TURNED)


class Unnamed(nn.Module):
    def forward(self, pos: Tensor, *others: Tensor) -> Tensor:
        return pos.sum(-2) + sum(other.sum() for other in others)


class PerPoint(nn.Module):
    def forward(self, pos: Tensor) -> Tensor:
        return pos.sin()


def test_networks_without_batch_do_not_get_it():
    model = mds.Invariant(PerPoint())
    found = model(ROWS, batch=BATCH)
    assert_close(found, torch.cat([model(cloud) for cloud in CLOUDS]), **CLOSE)
    assert_close(model.draw(ROWS, batch=BATCH).sin(), found, rtol=0, atol=0)
    model = mds.Invariant(Unnamed())
    refused("looks like the batch of several clouds", model, ROWS, BATCH)
    species = torch.randint(1, 9, (len(ROWS),), generator=torch.Generator().manual_seed(0))
    assert_close(model(ROWS, species), model(ROWS) + species.sum())
    one = torch.tensor([0, len(ROWS)])
    assert_close(model(ROWS, BATCH, ptr=one)[0], (model(ROWS) + BATCH.sum())[0])


def test_empty_clouds_masks_and_gradients_belong_to_rows():
    ptr = torch.tensor([0, 7, 7, 28])
    batch = torch.tensor([0, 2]).repeat_interleave(torch.tensor([7, 21]))
    one, other = mds.embed(ROWS, batch=batch), mds.embed(ROWS, ptr=ptr)
    assert torch.equal(one.y, other.y)
    assert torch.equal(one.ptr, ptr)
    assert mds.embed(torch.zeros(0, 3), batch=torch.zeros(0, dtype=torch.int64)).y.shape == (0, 3)
    mask = torch.arange(len(ROWS)) != 3
    found = mds.embed(ROWS, batch=BATCH, mask=mask)
    assert torch.equal(found.y, mds.embed(ROWS, ptr=PTR, mask=mask).y)
    x = ROWS.clone().requires_grad_()
    mds.embed(x, batch=BATCH).y[:7].sin().sum().backward()
    assert x.grad[:7].any()
    assert not x.grad[7:].any()


@pytest.mark.parametrize("function", [mds.embed, mds.frames])
def test_clouds_without_weight_are_refused_beside_clouds_without_rows(function):
    x = torch.randn(2, 9, 3, generator=torch.Generator().manual_seed(0))
    there = torch.tensor([True, False])[:, None].expand(2, 9)
    match = "every cloud must have a point of positive weight, got 1 of which mask and weights"
    for given in ({"mask": there}, {"weights": there.float()}):
        refused(match, function, x, **given)
        ragged = {name: value.flatten() for name, value in given.items()}
        refused(match, function, x.flatten(0, 1), ptr=torch.tensor([0, 9, 9, 18]), **ragged)
    assert function(x[:, :0], weights=torch.zeros(2, 0)).y.shape[-3:] == (2, 0, 3)


def test_arrays_are_taken_for_all_of_it():
    found = mds.embed(ROWS.numpy(), batch=BATCH.numpy(), weights=np.ones(len(ROWS)))
    assert_close(found.y, mds.embed(ROWS, ptr=PTR).y, **CLOSE)
    model = mds.Invariant(PerCloud().float())
    assert model(ROWS.numpy(), batch=BATCH).dtype == torch.float32


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"batch": BATCH.flip(0)}, "batch must be sorted"),
        ({"batch": BATCH, "ptr": PTR}, "give one of them, got both"),
        ({"batch": BATCH[1:]}, r"batch must be \(28,\), got \(27,\)"),
    ],
)
@pytest.mark.parametrize(
    "call", [mds.embed, mds.frames, mds.Invariant(PerCloud())], ids=["embed", "frames", "Invariant"]
)
def test_what_is_no_batch_is_refused_everywhere(call, given, message):
    refused(message, call, ROWS, **given)
    refused(r"points must be \(rows, dim\) with ptr or batch", call, ROWS[None], batch=BATCH)


def test_an_invariant_network_as_a_whole_takes_batches():
    model = mds.InvariantPointNet.preset("pointnet", 5).double().eval()
    found = model(ROWS, batch=BATCH)
    want = torch.cat([model(cloud[None]) for cloud in CLOUDS])
    close = tolerance(torch.float64, terms=512)  # its widest layer
    assert_close(found, want, **close)
    assert_close(model(ROWS, ptr=PTR), want, **close)
    assert_close(model(turned_first(), batch=BATCH), want, **close)
    behind = mds.Invariant(points.PointNet(5).double().eval())
    assert_close(behind(ROWS, batch=BATCH), torch.cat([behind(c[None]) for c in CLOUDS]))

"""Clouds as rows, padded by anything, by more of it, or with weights: one result in every form."""

import pytest
import torch

from equigeo import mds, points
from equigeo.mds.embedding.frames import KINDS
from tests.mds.clouds import generator

COUNTS = (80, 70)
QUIET = mds.EmbedOptions(fallback="ignore")
DTYPES = {torch.float64: 1e-10, torch.float32: 1e-4, torch.bfloat16: 0.1}  # of pooled features


def forms(dtype):
    """Padded points and masks: by little, by much, by zeros, and by what is not finite."""
    clouds = [torch.randn(n, 3, generator=generator(n), dtype=torch.float64) for n in COUNTS]
    rows = torch.cat(clouds).to(dtype)
    padded = []
    for length, content in ((80, 0.0), (80, float("nan")), (110, float("inf")), (110, 1e4)):
        mask = torch.arange(length) < torch.tensor(COUNTS)[:, None]
        x = torch.full((2, length, 3), content, dtype=dtype)
        x[mask] = rows
        padded.append((x, mask))
    return rows, torch.tensor([0, *COUNTS]).cumsum(0), padded


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "name", ["PointNet", "PointNetPlusPlus", "DGCNN", "PointTransformer", "embed", *KINDS]
)
def test_every_form_of_ragged_clouds_agrees(name, dtype):
    rows, ptr, padded = forms(dtype)
    batch = torch.arange(2).repeat_interleave(ptr.diff())
    network = name[0].isupper()
    if network:
        torch.manual_seed(0)
        fn = getattr(points, name)(4).eval().to(dtype)
    elif name == "embed":
        fn = lambda x, **clouds: mds.embed(x, options=QUIET, **clouds).y  # noqa: E731
    else:
        fn = lambda x, **clouds: mds.frames(x, kind=name, **clouds).y.abs().sum(0)  # noqa: E731
    want = fn(rows, ptr=ptr).detach()
    assert bool(want.isfinite().all())
    close = {"rtol": 0.0, "atol": DTYPES[dtype] * max(1.0, float(want.abs().max()))}
    torch.testing.assert_close(fn(rows, batch=batch).detach(), want, **close)
    for x, mask in padded:
        got = fn(x, mask=mask).detach()
        torch.testing.assert_close(got if network else got[mask], want, **close)
        if not network and bool(x.isfinite().all()):
            weighted = fn(x, weights=mask.to(x.dtype))
            torch.testing.assert_close(weighted[mask], want, **close)

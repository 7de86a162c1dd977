from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from equigeo import mds
from equigeo.groups import Affine, O
from equigeo.reps import Points, Trivial
from equigeo.testing import assert_equivariant
from tests.mds.clouds import CUBE, box, generator, generic, motions, turned

EXACT = {"rtol": 0.0, "atol": 1e-12}


class PointNet(nn.Module):
    def __init__(self, dim=3):
        super().__init__()
        self.each, self.last = nn.Linear(dim, 16), nn.Linear(16, 5)
        g = generator()
        with torch.no_grad():
            for p in self.parameters():
                p.copy_(torch.randn(p.shape, generator=g))
        self.double()

    def forward(self, y, bias=0.0):
        return self.last(torch.tanh(self.each(y)).amax(-2)) + bias


@pytest.mark.parametrize(
    "kind", ["skew", "joint", "frames", "soft", "frames24", "anchor", "weighted"]
)
@pytest.mark.parametrize("group", ["O", "SO"])
def test_any_network_becomes_invariant(kind, group):
    model = mds.Invariant(PointNet(), kind=kind, group=group)
    x = generic(20, batch=(3,))
    want = model(x)
    assert want.shape == (3, 5)
    for g in motions(8, proper=group == "SO"):
        assert_close(model(2.5 * x @ g.mT - 1), want, **EXACT)
    assert not torch.allclose(model.network(x @ motions(1)[0].mT), model.network(x))


def test_it_is_equivariant_as_declared():
    model = mds.Invariant(PointNet(), scale="none")
    assert model.rep_in == Points(Affine(O(3)))
    rep_out = Trivial(Affine(O(3)), 5)
    assert_equivariant(model, model.rep_in, rep_out, inputs=[generic()], condition=4.0)
    with pytest.raises(AssertionError):
        assert_equivariant(model.network, model.rep_in, rep_out, inputs=[generic()])


def test_scale_can_matter():
    model, x = mds.Invariant(PointNet(), scale="none"), generic()
    assert not torch.allclose(model(2 * x), model(x))


def test_symmetric_clouds_with_fallback():
    options = mds.EmbedOptions(fallback="anchor")
    model = mds.Invariant(PointNet(), options=options)
    x = torch.stack([generic(8), turned(CUBE), turned(box(3, 2, 1))])
    want = model(x)
    for g in motions(8):
        assert_close(model(x @ g.mT), want, **EXACT)
    assert_close(want[0], mds.Invariant(PointNet())(x[0]), **EXACT)


def test_clouds_in_every_form():
    x = generic(12)
    model = mds.Invariant(PointNet())
    padded = torch.cat([x, torch.full((3, 3), torch.nan)])
    mask = torch.arange(15) < 12

    class Masked(PointNet):
        def forward(self, y, mask):
            return super().forward(y[..., mask, :])

    assert_close(mds.Invariant(Masked())(padded, mask, mask=mask), model(x), **EXACT)
    per_point = mds.Invariant(nn.Tanh())
    ragged = per_point(torch.cat([x, x[:7]]), ptr=torch.tensor([0, 12, 19]))
    assert_close(ragged[:12], per_point(x), **EXACT)
    assert_close(model(x, bias=2.0), model(x) + 2, **EXACT)
    weighted = model(x, weights=torch.arange(12.0))
    assert not torch.allclose(weighted, model(x))


def test_training_may_use_another_kind():
    calls = []

    class Counted(PointNet):
        def forward(self, y):
            calls.append(len(y))
            return super().forward(y)

    model = mds.Invariant(Counted(), kind="frames", training_kind="skew")
    model(generic())
    assert len(calls) == 1
    model.eval()
    model(generic())
    assert len(calls) == 9
    assert "kind='frames'" in repr(model)


def test_choices_are_checked():
    for keyword in ("kind", "training_kind", "reduce", "scale", "group"):
        with pytest.raises(ValueError, match=f"{keyword} must be"):
            mds.Invariant(PointNet(), **{keyword: "nothing"})
    with pytest.raises(ValueError, match=r"points must be \(\.\.\., points, 3\), got \(5, 2\)"):
        mds.Invariant(PointNet())(torch.zeros(5, 2))


def test_gradients_reach_points_and_weights():
    model = mds.Invariant(PointNet()).train()
    x = generic().requires_grad_()
    model(x).square().sum().backward()
    assert x.grad.isfinite().all()
    assert_close(x.grad.sum(0), torch.zeros(3).double(), **EXACT)
    assert all(p.grad.any() for p in model.parameters())


def test_it_compiles_and_exports():
    model = mds.Invariant(PointNet())
    x = generic(10, batch=(2,))
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    assert_close(compiled(x), model(x))
    assert_close(torch.export.export(model, (x,)).module()(x), model(x))

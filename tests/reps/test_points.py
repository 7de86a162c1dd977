"""The affine action on coordinates of points."""

from __future__ import annotations

import pytest
import torch

from equigeo.groups import SL, SO, Affine, GLPlus, Group, O
from equigeo.reps import (
    Points,
    Representation,
    TensorRep,
)


def elements(group: Group, seed: int = 0) -> torch.Tensor:
    return group.testing_elements(torch.Generator().manual_seed(seed))


def features(rep: Representation) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(3, 1, rep.dim, dtype=torch.float64, generator=generator)


def close(a: torch.Tensor, b: torch.Tensor) -> None:
    scale = max(1.0, float(b.abs().max()) if b.numel() else 1.0)
    torch.testing.assert_close(a, b, rtol=0, atol=1e-10 * scale)


def test_points_move_and_vectors_only_turn():
    group = Affine(GLPlus(2))
    g = group.element(torch.diag(torch.tensor([2.0, 1.0])), torch.tensor([10.0, 20.0]))
    points = torch.tensor([[1.0, 1.0], [0.0, 0.0]])
    assert Points(group).act(g, points).tolist() == [[12.0, 21.0], [10.0, 20.0]]
    assert TensorRep(group).act(g, points).tolist() == [[2.0, 1.0], [0.0, 0.0]]


@pytest.mark.parametrize("group", [Affine(O(3)), Affine(GLPlus(2)), O(3), SL(2)], ids=str)
def test_points_obey_homogeneous_matrices(group):
    rep = Points(group)
    g, h = elements(group), elements(group, 1).flip(0)
    close(rep.matrix(g @ h), rep.matrix(g) @ rep.matrix(h))
    x = features(rep)
    lifted = torch.cat([x, torch.ones_like(x[..., :1])], -1)
    want = (rep.matrix(g) @ lifted[..., None])[..., :-1, 0]
    close(rep.act(g, x), want)
    close(rep.act(h, rep.act(g, x)), rep.act(h @ g, x))
    exponentials = torch.linalg.matrix_exp(rep.generators())
    close(exponentials, rep.matrix(group.exp(group.generators())))
    assert not rep.is_trivial()
    assert eval(repr(rep)) == rep


def test_points_of_a_smaller_group():
    assert Points(Affine(O(3))).restrict(Affine(SO(3))) == Points(Affine(SO(3)))
    assert Points(Affine(O(3))).restrict(SO(3)) == Points(SO(3))
    with pytest.raises(ValueError, match="is not a subgroup"):
        Points(O(3)).restrict(Affine(O(3)))
    with pytest.raises(ValueError, match="is not a subgroup"):
        Points(SO(3)).restrict(O(3))

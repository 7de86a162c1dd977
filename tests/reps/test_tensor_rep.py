"""Tensors with indices and densities against matrices written out."""

from __future__ import annotations

import math

import torch

from equigeo.groups import GL, GLPlus, Group, O
from equigeo.reps import (
    Irreps,
    TensorRep,
)


def elements(group: Group, seed: int = 0) -> torch.Tensor:
    return group.testing_elements(torch.Generator().manual_seed(seed))


def close(a: torch.Tensor, b: torch.Tensor) -> None:
    scale = max(1.0, float(b.abs().max()) if b.numel() else 1.0)
    torch.testing.assert_close(a, b, rtol=0, atol=1e-10 * scale)


def test_orthogonal_tensors_are_irreps():
    g = elements(O(3))
    close(TensorRep(O(3)).matrix(g), Irreps("1o").matrix(g))
    close(TensorRep(O(3), up=0, down=1).matrix(g), Irreps("1o").matrix(g))
    trace = TensorRep(O(3), up=2).matrix(g).diagonal(dim1=1, dim2=2).sum(-1)
    parts = Irreps("0e+1e+2e").matrix(g).diagonal(dim1=1, dim2=2).sum(-1)
    close(trace, parts)


def test_tensor_oracles():
    g = torch.tensor([[1.2, 0.4], [-0.3, 0.9]], dtype=torch.float64)
    group = GLPlus(2)
    h = math.sqrt(0.5)
    basis = torch.tensor([[1, 0, 0, 0], [0, h, h, 0], [0, 0, 0, 1]], dtype=torch.float64)
    squares = basis @ TensorRep(group, up=2).matrix(g) @ basis.T
    want = [
        [1.44, 0.678822509939, 0.16],
        [-0.509116882454, 0.96, 0.509116882454],
        [0.09, -0.381837661841, 0.81],
    ]
    # half a unit of the twelfth decimal, the last that is given
    torch.testing.assert_close(squares, g.new_tensor(want), rtol=0, atol=5.1e-13)
    close(TensorRep(group, up=0, density=2.0).matrix(g), g.new_tensor([[1.44]]))
    close(TensorRep(group, up=0, down=1).matrix(g), torch.linalg.inv(g).T)
    close(TensorRep(group, 1, 1).matrix(g), torch.kron(g, torch.linalg.inv(g).T.contiguous()))


def test_cross_products_of_vectors_are_covectors_of_density_one():
    g = GLPlus(3).sample(6, generator=torch.Generator().manual_seed(0))
    vector, density = TensorRep(GLPlus(3)), TensorRep(GLPlus(3), up=0, down=1, density=1.0)
    a, b = torch.randn(2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    got = torch.linalg.cross(vector.act(g, a), vector.act(g, b))
    close(got, density.act(g, torch.linalg.cross(a, b)))


def test_densities_are_positive_under_reflections():
    mirror = torch.diag(torch.tensor([-2.0, 1.0]))
    assert TensorRep(GL(2), up=0, density=1.0).act(mirror, torch.ones(1)).tolist() == [2.0]
    assert not TensorRep(GL(2), up=0, density=1.0).is_trivial()
    assert TensorRep(O(2), up=0, density=1.0).is_trivial()

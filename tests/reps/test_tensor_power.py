"""Symmetric and alternating powers against minors and known decompositions."""

from __future__ import annotations

import pytest
import torch

from equigeo.groups import GL, GLPlus, Group, O
from equigeo.reps import (
    AltPower,
    Irreps,
    Points,
    SymPower,
    TensorRep,
)
from equigeo.testing import tolerance


def elements(group: Group, seed: int = 0) -> torch.Tensor:
    return group.testing_elements(torch.Generator().manual_seed(seed))


def close(a: torch.Tensor, b: torch.Tensor) -> None:
    scale = max(1.0, float(b.abs().max()) if b.numel() else 1.0)
    torch.testing.assert_close(a, b, rtol=0, atol=1e-10 * scale)


def test_power_oracles():
    g = torch.tensor([[1.2, 0.4], [-0.3, 0.9]], dtype=torch.float64)
    squares = SymPower(TensorRep(GLPlus(2)), 2).matrix(g)
    want = [
        [1.44, 0.678822509939, 0.16],
        [-0.509116882454, 0.96, 0.509116882454],
        [0.09, -0.381837661841, 0.81],
    ]
    # half a unit of the twelfth decimal, the last that is given
    torch.testing.assert_close(squares, g.new_tensor(want), rtol=0, atol=5.1e-13)
    bound = tolerance(torch.float64, 6)["atol"]
    assert float(torch.linalg.det(squares)) == pytest.approx(1.2**3, abs=bound)
    assert float(squares.trace()) == pytest.approx(3.21, abs=bound)
    close(AltPower(TensorRep(GLPlus(2)), 2).matrix(g), g.new_tensor([[1.2]]))

    rows = [[1.1, 0.2, -0.1], [-0.3, 0.9, 0.25], [0.15, -0.05, 1.3]]
    g = torch.tensor(rows, dtype=torch.float64)
    vector, det = TensorRep(GLPlus(3)), torch.linalg.det(g)
    squares, areas = SymPower(vector, 2).matrix(g), AltPower(vector, 2).matrix(g)
    values = torch.stack(
        [torch.linalg.det(squares), torch.linalg.det(areas), squares.trace(), areas.trace()]
    )
    want = g.new_tensor([3.822427984997, 1.955103062500, 7.2125, 3.6775])
    # likewise
    torch.testing.assert_close(values, want, rtol=0, atol=5.1e-13)
    close(torch.stack([det**4, det**2]), values[:2])
    close(areas, det * torch.linalg.inv(g).T)
    close(AltPower(vector, 3).matrix(g), det[None, None])
    assert [SymPower(vector, k).dim for k in (1, 2, 3, 4)] == [3, 6, 10, 15]
    assert AltPower(vector, 4).dim == 0


def test_powers_of_rotations_are_irreps():
    g = elements(O(3))
    for rep, text in [
        (SymPower(TensorRep(O(3)), 2), "0e+2e"),
        (SymPower(TensorRep(O(3)), 3), "1o+3o"),
        (AltPower(TensorRep(O(3)), 2), "1e"),
        (AltPower(TensorRep(O(3)), 3), "0o"),
    ]:
        trace, want = (r.matrix(g).diagonal(dim1=1, dim2=2).sum(-1) for r in (rep, Irreps(text)))
        close(trace, want)
    close(AltPower(TensorRep(O(3)), 2).matrix(g), Irreps("1e").matrix(g))


def test_powers_need_a_linear_factor():
    with pytest.raises(ValueError, match="power must be at least 1, got 0"):
        SymPower(TensorRep(GL(2)), 0)
    with pytest.raises(TypeError, match="a tensor power needs linear parts"):
        AltPower(Points(GL(2)), 2)

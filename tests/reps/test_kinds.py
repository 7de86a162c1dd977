"""Representations of each kind: tensors, powers, products, sums, points and irreps of the plane."""

import math

import pytest
import torch

from equigeo.groups import GL, SL, SO, Affine, GLPlus, Group, O
from equigeo.reps import (
    AltPower,
    Irreps,
    PlanarIrrep,
    Points,
    Representation,
    SymPower,
    TensorRep,
    Trivial,
)
from equigeo.reps.representation import Dual
from equigeo.testing import assert_representation, tolerance
from tests.wrong_inputs import refused


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
    group, h = GLPlus(2), math.sqrt(0.5)
    basis = torch.tensor([[1, 0, 0, 0], [0, h, h, 0], [0, 0, 0, 1]], dtype=torch.float64)
    squares = basis @ TensorRep(group, up=2).matrix(g) @ basis.T
    close(squares, SymPower(TensorRep(group), 2).matrix(g))
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


def test_the_first_factor_is_slowest():
    a, b = Irreps("1o"), Irreps("0e+2e")
    g = elements(O(3))
    want = torch.stack([torch.kron(p, q) for p, q in zip(a.matrix(g), b.matrix(g), strict=True)])
    close((a @ b).matrix(g), want)
    x, y = torch.arange(3.0), torch.arange(6.0)
    together = (a @ b).act(g, torch.outer(x, y).flatten())
    moved = (a.act(g, x)[:, :, None] * b.act(g, y)[:, None]).flatten(1)
    torch.testing.assert_close(together, moved, **tolerance(torch.float32, 18))


def features(rep: Representation) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(3, 1, rep.dim, dtype=torch.float64, generator=generator)


def test_points_move_and_vectors_only_turn():
    group = Affine(GLPlus(2))
    g = group.element(torch.diag(torch.tensor([2.0, 1.0])), torch.tensor([10.0, 20.0]))
    points = torch.tensor([[1.0, 1.0], [0.0, 0.0]])
    assert Points(group).act(g, points).tolist() == [[12.0, 21.0], [10.0, 20.0]]
    assert TensorRep(group).act(g, points).tolist() == [[2.0, 1.0], [0.0, 0.0]]


@pytest.mark.parametrize("group", [Affine(O(3)), Affine(GLPlus(2)), O(3), SL(2)], ids=str)
def test_points_obey_homogeneous_matrices(group):
    rep, g = Points(group), elements(group)
    assert_representation(rep)
    x = features(rep)
    lifted = torch.cat([x, torch.ones_like(x[..., :1])], -1)
    close(rep.act(g, x), (rep.matrix(g) @ lifted[..., None])[..., :-1, 0])
    assert not rep.is_trivial()
    assert eval(repr(rep)) == rep


def test_points_of_a_smaller_group():
    assert Points(Affine(O(3))).restrict(Affine(SO(3))) == Points(Affine(SO(3)))
    assert Points(Affine(O(3))).restrict(SO(3)) == Points(SO(3))
    with pytest.raises(ValueError, match="is not a subgroup"):
        Points(O(3)).restrict(Affine(O(3)))
    with pytest.raises(ValueError, match="is not a subgroup"):
        Points(SO(3)).restrict(O(3))


def test_sums_stand_side_by_side():
    rep = TensorRep(SL(2)) + Trivial(SL(2), 1)
    shear = torch.tensor([[1.0, 2.0], [0.0, 1.0]])
    assert rep.act(shear, torch.tensor([1.0, 1.0, 5.0])).tolist() == [3.0, 1.0, 5.0]
    assert rep.matrix(shear).tolist() == [[1, 2, 0], [0, 1, 0], [0, 0, 1]]


def test_simple_duals_stay_simple():
    group = GLPlus(3)
    assert TensorRep(group, 2, 0, 0.5).dual() == TensorRep(group, 0, 2, -0.5)
    assert isinstance(TensorRep(group, 1, 1).dual(), Dual)
    assert TensorRep(group, 1, 1).dual().dual() == TensorRep(group, 1, 1)
    assert Irreps("1o").dual() == Irreps("1o")
    assert Trivial(group, 2).dual() == Trivial(group, 2)


IRREPS = [PlanarIrrep(SO(2), k) for k in range(5)]
IRREPS += [PlanarIrrep(O(2), k) for k in range(5)] + [PlanarIrrep(O(2), 0, -1)]
CLOSE = tolerance(torch.float64, 16)


@pytest.mark.parametrize("rep", IRREPS, ids=str)
def test_irreps_are_representations(rep):
    assert_representation(rep)
    assert rep.is_orthogonal()
    assert rep.dual() == eval(repr(rep)) == rep
    assert rep.is_trivial() == (rep.frequency == 0 and rep.parity == 1)


@pytest.mark.parametrize("group", [SO(2), O(2)], ids=str)
def test_powers_of_a_point_move_as_their_frequency_says(group):
    g = group.testing_elements(torch.Generator().manual_seed(0))
    point = torch.tensor([0.6, -0.8], dtype=torch.float64)
    for k in (1, 2, 3):
        power, moved = (torch.complex(*x.unbind(-1)) ** k for x in (point, g @ point))
        want = PlanarIrrep(group, k).act(g, torch.view_as_real(power))
        torch.testing.assert_close(torch.view_as_real(moved), want, **CLOSE)


def test_bad_arguments_are_refused():
    refused(r"group must be SO\(2\) or O\(2\), got SL\(2\)", PlanarIrrep, SL(2), 1)
    refused("frequency must not be negative, got -1", PlanarIrrep, SO(2), -1)
    refused(r"parity of frequency 0 of SO\(2\) must be one of \(1,\)", PlanarIrrep, SO(2), 0, -1)
    refused(r"parity of frequency 2 of O\(2\) .* got -1", PlanarIrrep, O(2), 2, -1)

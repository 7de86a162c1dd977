"""Irreps of the plane: homomorphisms, all different, and the frequencies of tensors."""

from __future__ import annotations

import pytest
import torch

from equigeo.groups import SL, SO, O
from equigeo.reps import PlanarIrrep, TensorRep, is_isomorphic
from equigeo.testing import tolerance

IRREPS = [PlanarIrrep(SO(2), k) for k in range(5)]
IRREPS += [PlanarIrrep(O(2), k) for k in range(5)] + [PlanarIrrep(O(2), 0, -1)]
CLOSE = tolerance(torch.float64, 16)


@pytest.mark.parametrize("rep", IRREPS, ids=str)
def test_irreps_are_representations(rep):
    g, h = (rep.group.testing_elements(torch.Generator().manual_seed(s)) for s in (0, 1))
    torch.testing.assert_close(rep.matrix(g @ h), rep.matrix(g) @ rep.matrix(h), **CLOSE)
    x = 0.4 * rep.group.generators()
    exponential = torch.linalg.matrix_exp(rep.algebra(x))
    torch.testing.assert_close(rep.matrix(rep.group.exp(x)), exponential, **CLOSE)
    assert rep.is_orthogonal()
    assert rep.dual() == eval(repr(rep)) == rep
    assert rep.is_trivial() == (rep.frequency == 0 and rep.parity == 1)


def test_vectors_have_frequency_one():
    for group in (SO(2), O(2)):
        g = group.testing_elements(torch.Generator().manual_seed(0))
        torch.testing.assert_close(PlanarIrrep(group, 1).matrix(g), g, **CLOSE)
        assert is_isomorphic(PlanarIrrep(group, 1), TensorRep(group))


@pytest.mark.parametrize("group", [SO(2), O(2)], ids=str)
def test_powers_of_a_point_move_as_their_frequency_says(group):
    g = group.testing_elements(torch.Generator().manual_seed(0))
    point = torch.tensor([0.6, -0.8], dtype=torch.float64)
    for k in (1, 2, 3):
        power, moved = (torch.complex(*x.unbind(-1)) ** k for x in (point, g @ point))
        want = PlanarIrrep(group, k).act(g, torch.view_as_real(power))
        torch.testing.assert_close(torch.view_as_real(moved), want, **CLOSE)


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match=r"group must be SO\(2\) or O\(2\), got SL\(2\)"):
        PlanarIrrep(SL(2), 1)
    with pytest.raises(ValueError, match="frequency must not be negative, got -1"):
        PlanarIrrep(SO(2), -1)
    with pytest.raises(ValueError, match=r"parity of frequency 0 of SO\(2\) must be one of \(1,\)"):
        PlanarIrrep(SO(2), 0, -1)
    with pytest.raises(ValueError, match=r"parity of frequency 2 of O\(2\) .* got -1"):
        PlanarIrrep(O(2), 2, -1)

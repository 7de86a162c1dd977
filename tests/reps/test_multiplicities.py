"""Characters count what a representation is made of."""

from __future__ import annotations

import pytest
import torch

from equigeo.groups import GLPlus, Group, O
from equigeo.reps import Irreps, Representation, TensorRep
from equigeo.reps.multiplicities import maps_by_characters, multiplicities


def test_multiplicities_are_those_that_were_put_in():
    irreps = Irreps("3x0e + 2x1o + 1e + 4x3o + 0x2e")
    counts = {str(irrep): count for irrep, count in multiplicities(irreps)}
    assert counts == {"1x0e": 3, "1x1e": 1, "1x1o": 2, "1x3o": 4}


def test_dimensions_are_known_of_compact_groups():
    vector = TensorRep(O(3))
    assert maps_by_characters(vector @ vector, vector @ vector) == 3
    assert maps_by_characters(TensorRep(GLPlus(3)), TensorRep(GLPlus(3))) is None


class NoCharacter(Representation):
    """Matrices that are no homomorphism."""

    group: Group = O(3)
    dim = 3

    def matrix(self, g: torch.Tensor) -> torch.Tensor:
        return 1.3 * g

    def algebra(self, x: torch.Tensor) -> torch.Tensor:
        return x


def test_traces_that_are_no_character_are_refused():
    with pytest.raises(ArithmeticError, match=r"must be a whole number, got 1\.(3|29)"):
        multiplicities(NoCharacter())

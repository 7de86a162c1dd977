import numpy as np
import pytest
import torch

from equigeo.potentials import fit_references
from equigeo.testing import tolerance
from tests.shared_data import shared_data


def test_energies_of_elements_are_recovered():
    generator = np.random.default_rng(0)
    frames = [generator.choice([1, 6, 8], size=k) for k in range(3, 20)]
    exact = {1: -13.6, 6: -1029.5, 8: -2041.9}
    fitted = fit_references(frames, [sum(exact[z] for z in frame) for frame in frames])
    assert fitted.species == (1, 6, 8)
    lost = 19 * 2041.9 * tolerance(torch.float64)["atol"]  # of the largest total
    assert fitted.energies == pytest.approx([*exact.values()], abs=lost)
    assert fitted.is_unique
    assert fitted.residual < lost


def test_one_composition_gives_the_least_norm_and_says_so():
    frames = [torch.tensor([6, 6, 8, 1, 1, 1, 1, 1, 1])] * 4
    fitted = fit_references(frames, torch.full((4,), -4209.0))
    assert (fitted.rank, fitted.is_unique) == (1, False)
    counts = np.array([6, 2, 1])
    assert counts @ fitted.energies == pytest.approx(-4209.0)
    assert fitted.energies == pytest.approx(-4209.0 * counts / (counts @ counts))


def test_qm9_has_the_energies_of_the_specification():
    with np.load(shared_data("qm9") / "qm9_20k.npz") as data:
        column = data["property_names"].tolist().index("InternalEnergy_0K_au")
        energies = data["properties"][:, column] * 27.211386024367243  # hartree, as ASE has it
        frames = np.split(data["atomic_number"], data["atom_offset"][1:-1])
    fitted = fit_references(frames, energies)
    want = [-16.4274, -1036.0526, -1489.7957, -2046.9861, -2717.4821]  # specification 2.2
    # half units of the last decimals that are given
    assert fitted.energies == pytest.approx(want, abs=5.1e-5)
    assert fitted.residual == pytest.approx(1.093, abs=5e-4)  # likewise


@pytest.mark.parametrize(
    ("frames", "energies", "message"),
    [
        ([], [], "at least one frame"),
        ([[1]], [1.0, 2.0], "got 2 for 1 frames"),
        ([[1], []], [1.0, 2.0], "frame 1 must have atoms"),
        ([[-1, 0]], [1.0], "atomic numbers of frame 0 must be 1 to 118, got -1 to 0"),
        ([[1], [119]], [1.0, 1.0], "atomic numbers of frame 1 must be 1 to 118, got 119"),
        ([[1], [8]], [1.0, np.nan], "frame 1 must have atoms and a finite energy"),
    ],
)
def test_what_cannot_be_fitted_is_refused(frames, energies, message):
    with pytest.raises(ValueError, match=message):
        fit_references(frames, energies)


def test_atomic_numbers_are_integers():
    with pytest.raises(TypeError, match="of frame 1 must be integers, got float64"):
        fit_references([[1, 1], [1.5, 8]], [1.0, 2.0])

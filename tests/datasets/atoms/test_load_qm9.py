from __future__ import annotations

import numpy as np
import pytest
import torch

from equigeo.datasets import load_atomic_split, load_qm9
from tests.datasets.atoms.files import write_qm9
from tests.shared_data import shared_data


def test_hartrees_become_electronvolts(tmp_path):
    for name, column in (("U0", 1), ("U", 2)):
        frames = load_qm9(write_qm9(tmp_path), name)
        # One product, rounded by at most half of epsilon on either side.
        assert [f.energy for f in frames[:2]] == pytest.approx(
            [27.211386024367243 * column, 27.211386024367243 * (3 + column)], rel=1e-15
        )
    assert frames[3].name == "QM9 3"
    assert (frames[0].formula, frames[0].forces) == ("H2O", None)
    assert frames[0].positions.dtype == torch.float64


def test_a_property_that_is_missing_is_named(tmp_path):
    with pytest.raises(ValueError, match="has no Enthalphy_298K_au"):
        load_qm9(write_qm9(tmp_path), "H")
    with pytest.raises(ValueError, match="energy must be one of U0, U, H, G, got 'gap'"):
        load_qm9(tmp_path, "gap")
    broken = write_qm9(tmp_path / "b", position=np.full((60, 3), np.nan, np.float32))
    with pytest.raises(ValueError, match=r"qm9_20k\.npz: frame 0: positions must be finite"):
        load_qm9(broken)


def test_the_published_molecules_have_the_specified_reference_energies():
    split = load_atomic_split(shared_data("qm9"))
    assert (len(split.train), len(split.tests["test"])) == (16_000, 4_000)
    frames = [*split.train, *split.tests["test"]]
    assert len({frame.name for frame in frames}) == 20_000
    elements = (1, 6, 7, 8, 9)
    counts = torch.stack(
        [torch.stack([(f.numbers == z).sum() for z in elements]) for f in frames]
    ).double()
    assert counts.sum(1).mean().item() == pytest.approx(18.0, abs=0.05)  # one decimal
    energies = torch.tensor([frame.energy for frame in frames], dtype=torch.float64)
    found = torch.linalg.lstsq(counts, energies[:, None]).solution[:, 0]
    # Specification potentials.md, section 2.2
    expected = [-16.4274, -1036.0526, -1489.7957, -2046.9861, -2717.4821]
    assert found.tolist() == pytest.approx(expected, abs=1e-4)  # four decimals
    rest = energies - counts @ found
    assert rest.std().item() == pytest.approx(1.093, abs=1e-3)  # three decimals
    assert rest.abs().mean().item() == pytest.approx(0.862, abs=1e-3)  # three decimals

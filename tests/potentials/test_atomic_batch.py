from dataclasses import replace

import ase
import numpy as np
import pytest
import torch
from torch.testing import assert_close

from equigeo.potentials import AtomicBatch, hessian
from equigeo.testing import tolerance
from tests.potentials.systems import (
    CELL,
    CRYSTAL,
    CUTOFF,
    MOLECULE,
    NUMBERS,
    POSITIONS,
    SLAB,
    batch_of,
    potential,
)
from tests.wrong_inputs import refused


def test_systems_stand_one_after_another():
    batch = batch_of(MOLECULE, CRYSTAL)
    assert batch.num_systems == 2
    assert batch.ptr.tolist() == [0, 6, 8]
    assert batch.batch.tolist() == [0] * 6 + [1] * 2
    assert batch.pbc.tolist() == [[False] * 3, [True] * 3]
    assert_close(batch.cell, torch.stack([torch.zeros_like(CELL), CELL]))
    first = batch.edge_index[1] < 6
    assert torch.equal(batch.edge_index[:, first], batch_of(MOLECULE).edge_index)
    assert torch.equal(batch.edge_index[:, ~first] - 6, batch_of(CRYSTAL).edge_index)


def test_a_strain_deforms_positions_and_cell():
    batch = batch_of(CRYSTAL, SLAB)
    strain = 0.01 * torch.randn(2, 3, 3, dtype=torch.float64)
    symmetric = torch.eye(3, dtype=torch.float64) + (strain + strain.mT) / 2
    positions = (batch.positions[:, None] @ symmetric[batch.batch])[:, 0]
    deformed = replace(batch, positions=positions, cell=batch.cell @ symmetric)
    assert_close(batch.vectors(strain), deformed.vectors())


def test_arrays_and_tensors_are_the_same():
    numbers, positions = NUMBERS.numpy().astype(np.uint8), POSITIONS.numpy()
    arrays = AtomicBatch.from_systems(
        [(numbers, positions, None, np.zeros(3, bool))], 4.0, dtype=torch.float64
    )
    tensors = batch_of(MOLECULE)
    assert torch.equal(arrays.edge_index, tensors.edge_index)
    assert torch.equal(arrays.vectors(), tensors.vectors())
    assert arrays.numbers.dtype == torch.int64
    assert "positions=(6, 3) float64" in repr(tensors)


def test_structures_of_ase_are_systems():
    numbers, positions, cell, pbc = CRYSTAL
    crystal = ase.Atoms(numbers, positions.numpy(), cell=cell.numpy(), pbc=pbc)
    molecule = ase.Atoms(NUMBERS, POSITIONS.numpy())
    options = {"dtype": torch.float64, "vector_dtype": torch.float32}
    for given, systems in (
        (crystal, [CRYSTAL]),
        ([molecule, crystal], [MOLECULE, CRYSTAL]),
        ([], []),
    ):
        found = AtomicBatch.from_ase(given, CUTOFF, **options)
        states = {"charge": [0] * len(systems), "spin": [1] * len(systems)}
        expected = AtomicBatch.from_systems(systems, CUTOFF, **options, **states)
        for name, value in vars(expected).items():
            got = getattr(found, name)
            assert torch.equal(got, value) if isinstance(value, torch.Tensor) else got == value
    for wrong in ([MOLECULE], [molecule, "Cu"]):
        place = len(wrong) - 1
        refused(f"structure {place} must be ase.Atoms", AtomicBatch.from_ase, wrong, 4.0,
                error=TypeError)  # fmt: skip


def test_batches_take_other_positions_and_dtypes():
    batch = batch_of(CRYSTAL)
    positions = batch.positions.clone().requires_grad_(True)
    assert batch.with_positions(positions).edges is batch.edges
    assert torch.autograd.gradcheck(lambda x: batch.with_positions(x).vectors(), positions)
    single = batch.to(dtype=torch.float32)
    assert single.positions.dtype == single.cell.dtype == single.vectors().dtype == torch.float32
    assert single.edge_index.dtype == torch.int64


def test_atoms_far_from_the_origin_lose_nothing_in_float32():
    far = (NUMBERS, POSITIONS.float().round(decimals=1) + 4096.0, None, False)
    batch = AtomicBatch.from_systems([far], 4.0, dtype=torch.float32)
    exact = AtomicBatch.from_systems([far], 4.0, dtype=torch.float64)
    assert torch.equal(batch.vectors().double(), exact.vectors())  # multiples of 2^-11


NAN = POSITIONS.clone()
NAN[2, 1] = torch.nan
FLAT = torch.tensor([[1.0, 0, 0], [2.0, 0, 0], [0, 0, 1]], dtype=torch.float64)
WRONG = [
    ("CO2", TypeError, r"system 1 must be a tuple"),
    ((NUMBERS.double(), *MOLECULE[1:]), TypeError, "numbers of system 1 must be int"),
    (([6], *MOLECULE[1:]), TypeError, "numbers of system 1 must be a Tensor"),
    ((NUMBERS[:5], *MOLECULE[1:]), ValueError, r"positions of system 1 must be \(5, 3\)"),
    ((NUMBERS, NAN, None, False), ValueError, "positions of system 1 must be finite"),
    ((NUMBERS, POSITIONS, None, True), ValueError, "system 1 must have a cell"),
    ((NUMBERS, POSITIONS, FLAT, True), ValueError, "system 1"),
    ((NUMBERS, POSITIONS, 0 * FLAT, True), ValueError, "system 1"),
    ((NUMBERS, POSITIONS, FLAT / 0, True), ValueError, "cell of system 1 must be fin"),
    ((NUMBERS, POSITIONS, FLAT[:2], True), ValueError, r"cell of system 1 must be"),
    ((NUMBERS, POSITIONS, CELL, [True, False]), ValueError, "pbc of system 1 must be"),
    ((NUMBERS, POSITIONS, CELL, 1), ValueError, "pbc of system 1 must be"),
]


def test_systems_cutoffs_and_positions_that_do_not_fit_are_named():
    for system, error, message in WRONG:
        refused(message, batch_of, MOLECULE, system, error=error)
    refused("cutoff must be smaller", batch_of, CRYSTAL, cutoff=3000.0)
    refused(r"positions must be \(6, 3\)", batch_of(MOLECULE).with_positions, POSITIONS[:5])


def test_batches_are_made_on_the_cpu_whatever_the_default_device_is():
    systems = [MOLECULE, CRYSTAL]
    want = AtomicBatch.from_systems(systems, CUTOFF)
    with torch.device("meta"):
        found = AtomicBatch.from_systems(systems, CUTOFF)
        assert AtomicBatch.from_systems([], CUTOFF).positions.device.type == "cpu"
    for name in ("numbers", "positions", "cell", "pbc", "edge_index", "shifts", "batch", "ptr"):
        assert torch.equal(getattr(found, name), getattr(want, name)), name


# A program of PyTorch's own for tangents, made when the first is.
@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_edges_outlive_the_transform_that_asked_for_them_first():
    model, batch = potential(), batch_of(MOLECULE)

    def energy(x):
        return model.energies(batch.with_positions(x)).sum()

    second = torch.func.hessian(energy)(batch.positions)
    slope = torch.func.grad(energy)(batch.positions)
    # one sum in two orders
    bound = tolerance(torch.float64, 64)
    torch.testing.assert_close(slope, -model(batch).forces, **bound)
    torch.testing.assert_close(second.reshape(18, 18), hessian(model, batch_of(MOLECULE)), **bound)

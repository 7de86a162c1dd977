"""Potentials as models of TorchSim, by a stand-in of its interface, and itself where installed."""

import copy
import pickle
import sys
from abc import ABC, abstractmethod
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace

import pytest
import torch
from torch.testing import assert_close

from equigeo.interop import to_torch_sim
from equigeo.potentials import LastLayerUncertainty
from equigeo.testing import tolerance
from tests.potentials.systems import CELL, CRYSTAL, MOLECULE, NUMBERS, batch_of, potential
from tests.wrong_inputs import refused

INTERFACE = "torch_sim.models.interface"
CLOSE = tolerance(torch.float64, terms=14 * 4)  # edges of an atom, channels


class ModelInterface(torch.nn.Module, ABC):
    """What the interface has: properties without setters, and one abstract method."""

    @property
    def compute_stress(self):
        raise NotImplementedError

    @property
    def device(self):
        raise NotImplementedError

    @property
    def memory_scales_with(self):
        return "n_atoms_x_density"

    @abstractmethod
    def forward(self, state, **kwargs): ...


@pytest.fixture
def interface(monkeypatch):
    for name in ("torch_sim", "torch_sim.models"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    module = ModuleType(INTERFACE)
    module.ModelInterface = ModelInterface
    monkeypatch.setitem(sys.modules, INTERFACE, module)


def state_of(*systems, pbc, dtype=torch.float64):
    """Cells have lattice vectors as columns, and one flag or three are shared by all systems."""
    cells = [torch.zeros(3, 3) if cell is None else cell for _, _, cell, _ in systems]
    counts = torch.tensor([len(numbers) for numbers, *_ in systems])
    return SimpleNamespace(
        atomic_numbers=torch.cat([numbers for numbers, *_ in systems]),
        positions=torch.cat([positions for _, positions, *_ in systems]).to(dtype),
        cell=torch.stack([cell.to(dtype).T for cell in cells]),
        pbc=pbc,
        system_idx=torch.arange(len(systems)).repeat_interleave(counts),
    )


LARGER = (CRYSTAL[0], CRYSTAL[1], CELL @ torch.diag(torch.tensor([1.1, 1.0, 1.2]).double()), True)


def test_without_torch_sim_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, INTERFACE, None)
    refused("pip install torch-sim-atomistic", to_torch_sim, potential(), error=ImportError)


@pytest.mark.parametrize("as_dict", [False, True])
def test_results_are_those_of_the_potential(interface, as_dict):
    model = to_torch_sim(potential())
    assert isinstance(model, ModelInterface)
    state = state_of(CRYSTAL, LARGER, pbc=True)
    before = copy.deepcopy(vars(state))
    found = model(vars(state) if as_dict else state)
    want = potential()(batch_of(CRYSTAL, LARGER), stress=True)
    assert list(found) == ["energy", "forces", "stress"]
    for name, value in found.items():
        assert_close(value, getattr(want, name), **CLOSE)
        assert not value.requires_grad
    # transposed, the cell is another one: not only its stress differs
    wrong = CRYSTAL[0], CRYSTAL[1], CELL.T.contiguous(), True
    assert (potential()(batch_of(wrong)).energy - found["energy"][0]).abs() > 1e-3
    for name, value in before.items():
        assert_close(getattr(state, name), value, rtol=0.0, atol=0.0)


@pytest.mark.parametrize("pbc", [False, torch.tensor([True, True, False])])
def test_axes_are_periodic_that_say_so(interface, pbc):
    axes = torch.as_tensor(pbc).expand(3).tolist()
    found = to_torch_sim(potential())(state_of(CRYSTAL, pbc=pbc))
    want = potential()(batch_of((*CRYSTAL[:3], axes)))
    assert_close(found["forces"], want.forces, **CLOSE)
    assert found["stress"].isnan().all()


def test_a_molecule_needs_no_cell_and_no_system_index(interface):
    state = state_of(MOLECULE, pbc=False)
    state.system_idx = None
    found = to_torch_sim(potential(), stress=False)(state)
    want = potential()(batch_of(MOLECULE))
    assert found.keys() == {"energy", "forces"}
    assert_close(found["forces"], want.forces, **CLOSE)


def test_results_have_the_dtype_of_the_weights_and_what_is_computed_can_be_changed(interface):
    model = to_torch_sim(potential().float())
    assert (model.dtype, model.device.type) == (torch.float32, "cpu")
    found = model(state_of(CRYSTAL, pbc=True))
    assert {value.dtype for value in found.values()} == {torch.float32}
    model.double()
    assert model.dtype == torch.float64
    model.compute_forces = model.compute_stress = False
    for other in (model, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert other(state_of(CRYSTAL, pbc=True)).keys() == {"energy"}


def test_uncertainties_are_those_of_the_potential(interface):
    model, batch = potential(), batch_of(CRYSTAL, LARGER)
    out = model(batch, features=True)
    labelled = batch, out.energy + 0.1, out.forces + 0.1
    uncertainty = LastLayerUncertainty.fit(model, [batch], [labelled])
    made = to_torch_sim(model, uncertainty=uncertainty)
    for each in (made, pickle.loads(pickle.dumps(made))):
        found = each(state_of(CRYSTAL, LARGER, pbc=True))
        energy, forces = uncertainty(out, batch)
        bound = 1e-8  # splines are exact to 1e-12, which whitening multiplies by up to 1e3
        assert_close(found["energy_uncertainty"], energy, rtol=bound, atol=0.0)
        assert_close(found["forces_uncertainty"], forces, rtol=bound, atol=0.0)


def test_edges_are_searched_again_only_where_systems_have_moved(interface):
    kept, always = to_torch_sim(potential(), skin=0.3), to_torch_sim(potential(), skin=0)
    state = state_of(CRYSTAL, LARGER, pbc=True)
    for rebuilds, scale in ((1, 1.0), (1, 1.01), (2, 0.9)):
        state.positions, state.cell = scale * state.positions, scale * state.cell
        assert_close(kept(state), always(state), rtol=0.0, atol=0.0)
        assert kept.verlet.rebuilds == rebuilds
    copied = copy.deepcopy(kept)
    assert (copied.verlet.skin, copied.verlet.backend) == (0.3, "auto")
    one = state_of(LARGER, pbc=True)
    assert_close(kept(one), always(one), rtol=0.0, atol=0.0)


def test_states_that_do_not_fit_are_refused(interface):
    model = to_torch_sim(potential())
    state = state_of(CRYSTAL, CRYSTAL, pbc=True)
    state.system_idx = state.system_idx.flip(0)
    refused("system_idx must ascend", model, state)
    state.system_idx = torch.tensor([0, 0, 1, 2])
    refused("below the number of cells, 2", model, state)
    gold = state_of((torch.full_like(NUMBERS, 79), *MOLECULE[1:]), pbc=True)
    refused(r"among \[1, 6, 8\].*got \[79\]", model, gold)
    refused("cell must have independent vectors", model, state_of(MOLECULE, pbc=True))
    with pytest.raises(TypeError, match="must be a MessagePassingPotential, got Linear"):
        to_torch_sim(torch.nn.Linear(1, 1))


@pytest.mark.skipif(find_spec("torch_sim") is None, reason="TorchSim is not installed")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_torch_sim_itself_accepts_and_runs_it():
    import torch_sim
    from ase.build import bulk
    from torch_sim.models.interface import ModelInterface as Interface
    from torch_sim.models.interface import validate_model_outputs

    model = potential(species=(12, 14, 26), avg_neighbors=20.0)
    wrapped = to_torch_sim(model)
    assert isinstance(wrapped, Interface)
    validate_model_outputs(wrapped, torch.device("cpu"), torch.float64)
    sheared = bulk("Si")
    sheared.set_cell(sheared.cell[:] @ [[1, 0.1, 0], [0, 1, 0.05], [0, 0, 1]], scale_atoms=True)
    state = torch_sim.io.atoms_to_state([sheared], torch.device("cpu"), torch.float64)
    system = tuple(map(torch.tensor, (sheared.numbers, sheared.positions, sheared.cell[:])))
    want = model(batch_of((*system, True)), stress=True)
    found = wrapped(state)
    assert_close(found["energy"], want.energy)
    assert_close(found["stress"], want.stress)

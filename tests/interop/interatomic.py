"""Models of four libraries with random weights, and atoms to evaluate them on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor, nn
from torch.autograd import forward_ad

from equigeo.interop.optional import require_e3nn
from tests.draws import default_dtype

CUTOFF = 4.75  # Angstrom: three shells of copper, 42 neighbors
SPACING = 3.615  # Angstrom
APART = 100.0  # Angstrom: length of a cell around molecules, which do not meet

# Angstrom; idealised bond lengths and angles, staggered.
ETHANOL = """
    C -0.748  0.015  0.024   C  0.558  0.420 -0.278   O  1.446 -0.634  0.077
    H -1.304 -0.747 -0.391   H -1.305  0.937 -0.190   H -0.735 -0.177  1.103
    H  0.701  0.598 -1.356   H  0.772  1.346  0.286   H  1.412 -0.759  1.036
"""


@dataclass(frozen=True)
class Atoms:
    """Atoms in a periodic cube, all of them moved a little from where they would rest."""

    positions: Tensor
    kinds: Tensor
    length: float
    edges: Tensor
    shifts: Tensor

    @classmethod
    def copper(cls, cells: int, dtype: torch.dtype) -> Atoms:
        """Face-centred cubic."""
        rng = np.random.default_rng(np.random.SeedSequence([0, cells]))
        corners = np.stack(np.meshgrid(*[np.arange(cells)] * 3, indexing="ij"), -1).reshape(
            -1, 1, 3
        )
        basis = np.array([[0, 0, 0], [0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]])
        length = cells * SPACING
        ideal = ((corners + basis) * SPACING).reshape(-1, 3)
        positions = (ideal + rng.normal(0, 0.05, ideal.shape)) % length
        tree = cKDTree(positions, boxsize=length)
        pairs = tree.query_pairs(CUTOFF, output_type="ndarray")
        edges = np.concatenate([pairs, pairs[:, ::-1]]).T
        shifts = -np.round((positions[edges[1]] - positions[edges[0]]) / length)
        to_torch = [torch.tensor(positions), torch.tensor(shifts)]
        moved, cell_shifts = (value.to(dtype) for value in to_torch)
        kinds = torch.zeros(len(moved), dtype=torch.int64)
        return cls(moved, kinds, length, torch.tensor(edges), cell_shifts)

    @classmethod
    def ethanol(cls, molecules: int, dtype: torch.dtype) -> Atoms:
        """Molecules that do not meet, with all pairs of their atoms as edges."""
        words = np.array(ETHANOL.split()).reshape(-1, 4)
        kinds = torch.tensor(["CHO".index(symbol) for symbol in words[:, 0]])
        ideal = np.tile(words[:, 1:].astype(np.float64), (molecules, 1))
        rng = np.random.default_rng(np.random.SeedSequence([1, molecules]))
        moved = torch.tensor(ideal + rng.normal(0, 0.02, ideal.shape)).to(dtype)
        pairs = (1 - torch.eye(len(words), dtype=torch.int64)).nonzero().T
        shifts = torch.zeros(pairs.shape[1], 3, dtype=dtype)
        one = cls(moved[: len(words)], kinds, APART, pairs, shifts).repeat(molecules)
        return replace(one, positions=moved)

    def repeat(self, copies: int) -> Atoms:
        """Make copies that do not see each other."""
        offsets = torch.arange(copies).repeat_interleave(self.edges.shape[1]) * len(self.kinds)
        return Atoms(
            self.positions.repeat(copies, 1),
            self.kinds.repeat(copies),
            self.length,
            self.edges.repeat(1, copies) + offsets,
            self.shifts.repeat(copies, 1),
        )


def nequip(dtype: torch.dtype, elements: Sequence[str] = ("Cu",), **options: Any) -> nn.Module:
    """Build a NequIP model."""
    from nequip.model import NequIPGNNModel
    from nequip.utils.global_state import set_global_state

    set_global_state()
    known = {"num_layers": 3, "l_max": 2, "num_features": 64, **options}
    return NequIPGNNModel(
        seed=0,
        model_dtype=str(dtype).removeprefix("torch."),
        r_max=CUTOFF,
        type_names=list(elements),
        avg_num_neighbors=42.0,
        per_type_energy_scales=1.0,
        per_type_energy_shifts=0.0,
        **known,
    ).eval()


def allegro(dtype: torch.dtype, elements: Sequence[str] = ("Cu",), **options: Any) -> nn.Module:
    """Build an Allegro model."""
    from allegro.model import AllegroModel
    from nequip.utils.global_state import set_global_state

    set_global_state()
    known = {"num_layers": 2, "l_max": 2, "num_scalar_features": 64, "num_tensor_features": 64}
    return AllegroModel(
        seed=0,
        model_dtype=str(dtype).removeprefix("torch."),
        r_max=CUTOFF,
        type_names=list(elements),
        radial_chemical_embed={"_target_": "allegro.nn.TwoBodyBesselScalarEmbed"},
        avg_num_neighbors=42.0,
        per_type_energy_scales=1.0,
        per_type_energy_shifts=0.0,
        **{**known, **options},
    ).eval()


def nequip_frames(crystal: Atoms, order: Tensor) -> dict[str, Tensor]:
    """Return two copies of a crystal, one stretched, as NequIP batches frames."""
    atoms = len(crystal.positions)
    edges = torch.cat([crystal.edges, crystal.edges + atoms], dim=1)
    return {
        "pos": torch.cat([crystal.positions, 1.01 * crystal.positions]).double(),
        "cell": torch.eye(3).double() * crystal.length * torch.tensor([1.0, 1.01])[:, None, None],
        "edge_index": edges[:, order],
        "edge_cell_shift": torch.cat([crystal.shifts] * 2)[order].double(),
        "atom_types": torch.zeros(2 * atoms, dtype=torch.int64),
        "batch": torch.arange(2).repeat_interleave(atoms),
        "num_atoms": torch.tensor([atoms, atoms]),
    }


def evaluate_nequip(model: nn.Module, atoms: Atoms, *, stress: bool = False) -> tuple[Tensor, ...]:
    """Return energy, forces and maybe the stress; in training mode differentiable by parameters."""
    out = model(
        {
            "pos": atoms.positions.double(),
            "cell": torch.eye(3, dtype=torch.float64)[None] * atoms.length,
            "edge_index": atoms.edges.contiguous(),  # Allegro takes a view of it
            "edge_cell_shift": atoms.shifts.double(),
            "atom_types": atoms.kinds,
        }
    )
    found = out["total_energy"].squeeze(), out["forces"]
    return (*found, out["stress"]) if stress else found


def mace(
    dtype: torch.dtype,
    block: str = "RealAgnosticResidualInteractionBlock",
    elements: Sequence[str] = ("Cu",),
    **options: Any,
) -> nn.Module:
    """Build a MACE model."""
    o3 = require_e3nn()
    from ase.data import atomic_numbers
    from mace import modules

    hidden = options.pop("hidden_irreps", "128x0e+128x1o")
    known = {"max_ell": 3, "correlation": 3, "num_interactions": 2, **options}
    with default_dtype(dtype), torch.random.fork_rng():
        torch.manual_seed(0)
        return modules.MACE(
            r_max=CUTOFF,
            num_bessel=8,
            num_polynomial_cutoff=5,
            interaction_cls=getattr(modules, block),
            interaction_cls_first=getattr(modules, block),
            num_elements=len(elements),
            hidden_irreps=o3.Irreps(hidden),
            MLP_irreps=o3.Irreps("16x0e"),
            atomic_energies=np.zeros(len(elements)),
            avg_num_neighbors=42.0,
            atomic_numbers=[atomic_numbers[symbol] for symbol in elements],
            gate=nn.functional.silu,
            **known,
        ).eval()


def mace_data(model: nn.Module, atoms: Atoms, positions: Tensor) -> dict[str, Tensor]:
    """Return atoms as MACE takes them, at other positions."""
    dtype, count = positions.dtype, len(positions)
    elements = len(model.atomic_numbers)  # type: ignore[arg-type]
    return {
        "positions": positions,
        "cell": torch.eye(3, dtype=dtype) * atoms.length,
        "edge_index": atoms.edges,
        "unit_shifts": atoms.shifts,
        "shifts": atoms.shifts * atoms.length,
        "node_attrs": nn.functional.one_hot(atoms.kinds, elements).to(dtype),
        "batch": torch.zeros(count, dtype=torch.int64),
        "ptr": torch.tensor([0, count]),
        "head": torch.zeros(1, dtype=torch.int64),
    }


def evaluate_mace(model: nn.Module, atoms: Atoms, *, stress: bool = False) -> tuple[Tensor, ...]:
    """Return energy, forces and maybe the stress; in training mode differentiable by parameters."""
    positions = atoms.positions.clone().requires_grad_()
    data = mace_data(model, atoms, positions)
    out = model(data, training=model.training, compute_stress=stress)
    found = out["energy"].squeeze(), out["forces"]
    return (*found, out["stress"]) if stress else found


def mace_energy(model: nn.Module, atoms: Atoms, positions: Tensor) -> Tensor:
    """Return the energy, differentiable by positions."""
    data = mace_data(model, atoms, positions)
    energy: Tensor = model(data, training=True, compute_force=False)["energy"].squeeze()
    return energy


def mace_hessian(model: nn.Module, atoms: Atoms) -> Tensor:
    """Return second derivatives, (atoms, 3, atoms, 3), row by row as MACE does in a loop."""
    from mace.modules.utils import compute_hessians_loop

    positions = atoms.positions.clone().requires_grad_()
    forces = model(mace_data(model, atoms, positions), training=True)["forces"]
    rows: Tensor = compute_hessians_loop(forces, positions)
    return rows.view(*positions.shape, *positions.shape)


def mace_hessian_product(model: nn.Module, atoms: Atoms, direction: Tensor) -> Tensor:
    """Return the product of the Hessian with a vector, (atoms, 3), forward over reverse."""
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(atoms.positions.clone().requires_grad_(), direction)
        # Only what can be differentiated again can be differentiated in forward mode.
        forces = model(mace_data(model, atoms, dual), training=True)["forces"]
        tangent: Tensor = forward_ad.unpack_dual(forces).tangent
    return -tangent


def mace_hessian_of_copies(model: nn.Module, atoms: Atoms) -> Tensor:
    """Return second derivatives, (atoms, 3, atoms, 3), all columns in one evaluation."""
    shape = atoms.positions.shape
    units = torch.eye(shape.numel(), dtype=atoms.positions.dtype).view(-1, 3)
    columns = mace_hessian_product(model, atoms.repeat(shape.numel()), units)
    return columns.view(*shape, *shape)


def sevenn(dtype: torch.dtype, elements: Sequence[str] = ("Cu",), **options: Any) -> nn.Module:
    """Build a SevenNet model."""
    from ase.data import atomic_numbers
    from sevenn._const import DEFAULT_E3_EQUIVARIANT_MODEL_CONFIG as DEFAULTS
    from sevenn.model_build import build_E3_equivariant_model

    numbers = [atomic_numbers[symbol] for symbol in elements]
    known = {"channel": 128, "lmax": 2, "num_convolution_layer": 5, "is_parity": False}
    known |= {"self_connection_type": "linear", "cutoff": CUTOFF, "conv_denominator": 6.5}
    config = {
        **DEFAULTS,
        **known,
        "_type_map": {number: place for place, number in enumerate(numbers)},
        "_number_of_species": len(numbers),
        "shift": 0.0,
        "scale": 1.0,
        **options,
    }
    with default_dtype(dtype), torch.random.fork_rng():
        torch.manual_seed(0)
        model: Any = build_E3_equivariant_model(config).to(dtype)
    model.set_is_batch_data(False)
    for name in ("onehot_idx_to_onehot", "one_hot_modality"):
        if dtype != torch.float32 and name in model._modules:  # SevenNet makes float32 of them
            model._modules[name].register_forward_hook(partial(_cast_floats, dtype))
    return model.eval()


def _cast_floats(dtype: torch.dtype, module: nn.Module, _: Any, data: Any) -> None:
    for key in ("x", "node_attr", "modal_attr"):
        if key in data and data[key].is_floating_point():
            data[key] = data[key].to(dtype)


def evaluate_sevenn(model: nn.Module, atoms: Atoms, *, stress: bool = False) -> tuple[Tensor, ...]:
    """Return energy, forces and maybe the stress; in training mode differentiable by parameters."""
    from sevenn.atom_graph_data import AtomGraphData

    start, end = atoms.edges
    vectors = atoms.positions[end] - atoms.positions[start] + atoms.shifts * atoms.length
    numbers = list(model.type_map)  # type: ignore[arg-type]
    data = {
        "x": atoms.kinds,
        "atomic_numbers": torch.tensor(numbers)[atoms.kinds],
        "edge_index": atoms.edges,
        "edge_vec": vectors,
        "num_atoms": torch.tensor(len(atoms.kinds)),
        "cell_volume": torch.tensor(atoms.length**3, dtype=vectors.dtype),
    }
    if model.modal_map:
        data["data_modality"] = list(model.modal_map)[-1]  # type: ignore[arg-type]
    out = model(AtomGraphData(**data))
    found = out["inferred_total_energy"], out["inferred_force"]
    return (*found, out["inferred_stress"]) if stress else found


Evaluate = Callable[[nn.Module, Atoms], tuple[Tensor, ...]]
MODELS: dict[str, tuple[Callable[..., nn.Module], Evaluate]] = {
    "nequip": (nequip, evaluate_nequip),
    "mace": (mace, evaluate_mace),
    "sevenn": (sevenn, evaluate_sevenn),
    "allegro": (allegro, evaluate_nequip),
}


SAME = 1e-12
"""Relative, by norm, in float64: 32 epsilon times the root of 2e4 terms, the neighbors of an atom
times channels, components and basis."""

CURVATURE = 1e-10
"""Of second derivatives: twice a factor of 8 pi / 4.75, the highest frequency of the eight Bessel
functions, and the rest for terms that are larger than what is left of them."""


def close_by_size(got: Tensor, want: Tensor) -> None:
    """Compare second derivatives by the largest of them."""
    scale = float(want.detach().abs().max())
    torch.testing.assert_close(got / scale, want / scale, rtol=CURVATURE, atol=CURVATURE)


def difference(ours: nn.Module, theirs: nn.Module, crystal: Atoms, evaluate: Evaluate) -> float:
    """Largest relative difference of the energy and, by norm, of the forces."""
    got, want = evaluate(ours, crystal), evaluate(theirs, crystal)
    return max(float((a - b).norm() / b.norm()) for a, b in zip(got, want, strict=True))


def assert_same_training(
    ours: nn.Module, theirs: nn.Module, crystal: Atoms, evaluate: Evaluate
) -> None:
    """Gradients of a loss on forces, through second derivatives, are the same."""
    gradients = []
    for model in (ours, theirs):
        energy, forces = evaluate(model, crystal)
        loss = energy / len(forces) + 1e3 * forces.square().sum()
        model.zero_grad()
        loss.backward()
        gradients.append({name: p.grad for name, p in model.named_parameters()})
    assert gradients[0].keys() == gradients[1].keys()
    assert any(grad is not None and grad.any() for grad in gradients[1].values())
    for name, want in gradients[1].items():
        got = gradients[0][name]
        if want is None:
            assert got is None or not got.any()
            continue
        scale = float(want.abs().max()) or 1.0
        # Two derivatives more than energies: see CURVATURE.
        torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-11 * scale, msg=name)

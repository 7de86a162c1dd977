"""Conversion of potentials to TorchSim."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn

from equigeo.graphs import VerletList
from equigeo.graphs.verlet_list import DEFAULT_SKIN
from equigeo.interop.optional import require
from equigeo.potentials import AtomicBatch, MessagePassingPotential


def to_torch_sim(
    model: MessagePassingPotential,
    *,
    stress: bool = True,
    skin: float = DEFAULT_SKIN,
    backend: str = "auto",
) -> Any:
    """Convert a potential to a model for TorchSim.

    Parameters
    ----------
    model : MessagePassingPotential
        Shared; its weights determine device and dtype.
    stress : bool
        Whether to compute stresses; later ``compute_stress`` of the result.
    skin, backend
        Neighbour lists, see :class:`equigeo.graphs.VerletList`; skin in angstrom.

    Returns
    -------
    torch_sim.models.interface.ModelInterface
        Computes "energy" (systems,) in eV, "forces" (atoms, 3) in eV/angstrom and "stress"
        (systems, 3, 3) in eV/angstrom^3, detached and in the dtype of the weights: in float32,
        energies of thousands of eV are rounded to 1 meV. Stresses are NaN unless three axes are
        periodic. Cells of states have lattice vectors as columns.

    Examples
    --------
    >>> from equigeo.potentials import PotentialConfig
    >>> model = MessagePassingPotential(PotentialConfig((14,), channels=4)).double().eval()
    >>> import ase.build, torch_sim  # doctest: +SKIP
    >>> silicon = ase.build.bulk("Si")  # doctest: +SKIP
    >>> results = torch_sim.static(silicon, to_torch_sim(model))  # doctest: +SKIP
    """
    if not isinstance(model, MessagePassingPotential):
        raise TypeError(f"model must be a MessagePassingPotential, got {type(model).__name__}")
    interface = require("torch_sim.models.interface", "torch-sim-atomistic").ModelInterface
    return _class_of(interface)(model, stress, skin, backend)


@cache
def _class_of(interface: type) -> Any:
    """Return a subclass of the base class, which is imported on demand."""
    return type("TorchSimModel", (_TorchSimModel, interface), {"__module__": __name__})


class _TorchSimModel(nn.Module):
    """The required interface, with precedence over the defaults of TorchSim."""

    compute_forces = True
    compute_stress = True

    def __init__(
        self, model: MessagePassingPotential, stress: bool, skin: float, backend: str
    ) -> None:
        super().__init__()
        self.model = model
        self.compute_stress = stress
        self.verlet = VerletList(model.config.cutoff, skin, backend=backend)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle by constructor arguments: the class has no name in this module."""
        skin, backend = self.verlet.skin, self.verlet.backend
        make = partial(to_torch_sim, stress=self.compute_stress, skin=skin, backend=backend)
        return make, (self.model,), {"compute_forces": self.compute_forces}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.compute_forces = state["compute_forces"]

    @property
    def device(self) -> torch.device:
        return self.model.embedding.weight.device

    @property
    def dtype(self) -> torch.dtype:
        return self.model.embedding.weight.dtype

    def forward(self, state: Any, **_: Any) -> dict[str, Tensor]:
        given = state.__getitem__ if isinstance(state, Mapping) else partial(getattr, state)
        fields = ("atomic_numbers", "positions", "cell", "pbc", "system_idx")
        batch = self._batch(*map(given, fields))
        with torch.no_grad():  # derivatives are there all the same
            out = self.model(batch, forces=self.compute_forces, stress=self.compute_stress)
        found = {"energy": out.energy, "forces": out.forces, "stress": out.stress}
        return {name: x.detach().to(self.dtype) for name, x in found.items() if x is not None}

    def _batch(
        self,
        numbers: Tensor,
        positions: Tensor,
        cell: Tensor,
        pbc: bool | Tensor,
        system_idx: Tensor | None,
    ) -> AtomicBatch:
        """Build the edges of a state with column cells and shared periodic axes."""
        self.model.species_of(numbers.to(self.device))  # before any list is built
        index = torch.zeros_like(numbers) if system_idx is None else system_idx
        systems = cell.reshape(-1, 3, 3)
        counts = torch.bincount(index, minlength=len(systems)).tolist()
        if len(counts) != len(systems) or bool((index.diff() < 0).any()):
            raise ValueError(
                f"system_idx must ascend and be below the number of cells, {len(systems)}, got "
                f"{index.tolist()}"
            )
        axes = torch.as_tensor(pbc, dtype=torch.bool).cpu().expand(3)
        parts = zip(numbers.split(counts), positions.split(counts), systems.mT, strict=True)
        batch = AtomicBatch.from_systems(
            [(z, x, vectors, axes.numpy()) for z, x, vectors in parts],
            self.model.config.cutoff,
            dtype=torch.float64,
            vector_dtype=self.dtype,
            verlet=self.verlet,
        )
        return batch.to(self.device)

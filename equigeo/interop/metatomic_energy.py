"""Energies of systems in TorchScript, which reads annotations as ``typing`` objects."""
# ruff: noqa: UP006, UP035, UP045

from typing import Dict, List, Optional, Tuple, final

import torch
from torch import Tensor, nn

try:
    from metatensor.torch import Labels, TensorBlock, TensorMap
    from metatomic.torch import ModelOutput, NeighborListOptions, System
except ImportError:  # to_metatomic raises with the remedy
    Labels = TensorBlock = TensorMap = ModelOutput = NeighborListOptions = System = object


@final
class MetatomicEnergy(nn.Module):
    """Energies of systems with gradients from a program, in TorchScript."""

    # Engines differentiate energies by positions and cells, through edge vectors v. The energy is E
    # + slope . (v - v) with the second v constant: value E and gradient slope, without a custom
    # autograd op.
    def __init__(
        self,
        # atomic numbers, energy weights, edges, vectors to atom energies, slopes, whitened features
        # and species
        program: torch.jit.ScriptModule,
        options: NeighborListOptions,  # of the edges
        species: int,  # number of elements
        scale: float,  # of uncertainties
    ) -> None:
        super().__init__()
        self.program = program
        self.options = options
        self.species = species
        self.scale = scale

    def requested_neighbor_lists(self) -> List[NeighborListOptions]:
        """Return the neighbor lists for the engine to compute."""
        return [self.options]

    def forward(
        self,
        systems: List[System],  # with the neighbor list
        outputs: Dict[str, ModelOutput],  # requested outputs
        selected_atoms: Optional[Labels],  # atoms with summed energies, by default all
    ) -> Dict[str, TensorMap]:
        """Compute "energy" and "energy_uncertainty", (samples, 1), in eV, if requested."""
        results: Dict[str, TensorMap] = {}
        wanted = "energy_uncertainty" in outputs
        if ("energy" in outputs or wanted) and len(systems) > 0:
            # Engines do not always check what a model can do.
            if "energy" in outputs and outputs["energy"].sample_kind != "system":
                raise ValueError(
                    "the energy must be wanted of systems: gradients of those of atoms are unknown"
                )
            energy, of_systems, of_atoms, atoms = self._energy(systems, selected_atoms)
            every = torch.arange(len(systems), dtype=torch.int32, device=energy.device)[:, None]
            samples = Labels(["system"], every)
            if "energy" in outputs:
                results["energy"] = self._map(energy, samples)
            if wanted and outputs["energy_uncertainty"].sample_kind == "atom":
                results["energy_uncertainty"] = self._map(of_atoms, atoms)
            elif wanted:
                results["energy_uncertainty"] = self._map(of_systems, samples)
        return results

    def _map(self, values: Tensor, samples: Labels) -> TensorMap:
        """Return values of samples with the metadata of energies."""
        zero = torch.zeros(1, 1, dtype=torch.int32, device=values.device)
        block = TensorBlock(
            values=values[:, None],
            samples=samples,
            components=torch.jit.annotate(List[Labels], []),
            properties=Labels(["energy"], zero),
        )
        return TensorMap(keys=Labels(["_"], zero), blocks=[block])

    def _energy(
        self, systems: List[System], selected_atoms: Optional[Labels]
    ) -> Tuple[Tensor, Tensor, Tensor, Labels]:
        """Return energies, as functions of edge vectors, and uncertainties of systems and atoms."""
        numbers, edges, vectors, counts = self._joined(systems)
        atoms, pairs = counts[0], counts[1]
        first = atoms.cumsum(0) - atoms
        every = torch.arange(len(systems), device=numbers.device)
        weights = torch.ones_like(numbers, dtype=vectors.dtype)
        if selected_atoms is not None:
            chosen = selected_atoms.values.to(torch.int64)
            weights = torch.zeros_like(weights)
            weights[first[chosen[:, 0]] + chosen[:, 1]] = 1.0
        of_atoms = every.repeat_interleave(atoms)
        of_pairs = every.repeat_interleave(pairs)
        shifted = edges + first[of_pairs]
        with torch.no_grad():  # TorchScript moves what is only detached
            energies, slopes, white, species = self.program(numbers, weights, shifted, vectors)
            # The variance of a sum is that of summed features, of each element.
            sums = torch.zeros(len(systems) * self.species, white.shape[1], dtype=white.dtype)
            groups = of_atoms * self.species + species
            sums = sums.to(white.device).index_add(0, groups, weights[:, None] * white)
            variance = sums.square().sum(1).reshape(len(systems), -1).sum(1)
            kept = weights > 0
            inside = torch.arange(len(numbers), device=numbers.device) - first[of_atoms]
            samples = torch.stack([of_atoms, inside], dim=1)[kept].to(torch.int32)
            shares = self.scale * white[kept].square().sum(1).sqrt()
        energy = torch.zeros(len(systems), dtype=vectors.dtype, device=vectors.device)
        energy = energy.index_add(0, of_atoms, weights * energies)
        zero = ((vectors - vectors.detach()) * slopes).sum(1)
        energy = energy.index_add(0, of_pairs, zero)
        deviation = self.scale * variance.sqrt()
        return energy, deviation, shares, Labels(["system", "atom"], samples)

    def _joined(self, systems: List[System]) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
        """Concatenate systems; return numbers of atoms and of edges, (2, systems)."""
        numbers: List[Tensor] = []
        edges: List[Tensor] = []
        vectors: List[Tensor] = []
        atoms: List[int] = []
        pairs: List[int] = []
        for system in systems:
            listed = system.get_neighbor_list(self.options)
            numbers.append(system.types)
            edges.append(listed.samples.values[:, :2])
            vectors.append(listed.values.squeeze(2))
            atoms.append(len(system))
            pairs.append(len(listed.samples))
        joined = torch.cat(numbers).to(torch.int64)
        both = torch.cat(edges).to(torch.int64).transpose(0, 1).contiguous()
        sizes = torch.tensor([atoms, pairs], dtype=torch.int64, device=joined.device)
        return joined, both, torch.cat(vectors), sizes

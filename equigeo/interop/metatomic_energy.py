"""The module that metatomic saves: energies of systems, in TorchScript.

TorchScript and metatomic read annotations, which therefore are no strings, and of ``typing``.
"""
# ruff: noqa: UP006, UP035, UP045

from typing import Dict, List, Optional, Tuple, final

import torch
from torch import Tensor, nn

try:
    from metatensor.torch import Labels, TensorBlock, TensorMap
    from metatomic.torch import ModelOutput, NeighborListOptions, System
except ImportError:  # to_metatomic says what is missing
    Labels = TensorBlock = TensorMap = ModelOutput = NeighborListOptions = System = object


@final
class MetatomicEnergy(nn.Module):
    """Energies of systems whose gradients are slopes that a program gives.

    Engines differentiate energies by positions and cells, on which vectors of edges depend. The
    energy of a system is ``E + slope . (v - v)``, where the second v is a constant: its value is E
    and its gradient by v the slope, without an op that must know its own derivative.

    Parameters
    ----------
    program : ScriptModule
        From atomic numbers (atoms,), weights of their energies (atoms,), edges (2, edges) and
        vectors (edges, 3) to energies of atoms and the slopes of their weighted sum, (edges, 3).
    options : NeighborListOptions
        Of the edges.
    """

    def __init__(self, program: torch.jit.ScriptModule, options: NeighborListOptions) -> None:
        super().__init__()
        self.program = program
        self.options = options

    def requested_neighbor_lists(self) -> List[NeighborListOptions]:
        """Ask the engine for edges."""
        return [self.options]

    def forward(
        self,
        systems: List[System],
        outputs: Dict[str, ModelOutput],
        selected_atoms: Optional[Labels],
    ) -> Dict[str, TensorMap]:
        """Compute what is asked for.

        Parameters
        ----------
        systems : list of System
            With the neighbour list.
        outputs : dict of ModelOutput
            What is wanted.
        selected_atoms : Labels, optional
            Whose energies are summed; all by default.

        Returns
        -------
        dict of TensorMap
            "energy", (systems, 1), in eV, where it is wanted.

        Raises
        ------
        ValueError
            If energies of atoms are wanted.
        """
        results: Dict[str, TensorMap] = {}
        if "energy" in outputs and len(systems) > 0:
            # Engines do not always check what a model can do.
            if outputs["energy"].sample_kind != "system":
                raise ValueError(
                    "the energy must be wanted of systems: gradients of those of atoms are unknown"
                )
            energy = self._energy(systems, selected_atoms)
            device = energy.device
            samples = torch.arange(len(systems), dtype=torch.int32, device=device)[:, None]
            zero = torch.zeros(1, 1, dtype=torch.int32, device=device)
            block = TensorBlock(
                values=energy[:, None],
                samples=Labels(["system"], samples),
                components=torch.jit.annotate(List[Labels], []),
                properties=Labels(["energy"], zero),
            )
            results["energy"] = TensorMap(keys=Labels(["_"], zero), blocks=[block])
        return results

    def _energy(self, systems: List[System], selected_atoms: Optional[Labels]) -> Tensor:
        """Energies, (systems,), as functions of the vectors of edges."""
        numbers, edges, vectors, counts = self._joined(systems)
        atoms, pairs = counts[0], counts[1]
        first = atoms.cumsum(0) - atoms
        every = torch.arange(len(systems), device=numbers.device)
        weights = torch.ones_like(numbers, dtype=vectors.dtype)
        if selected_atoms is not None:
            chosen = selected_atoms.values.to(torch.int64)
            weights = torch.zeros_like(weights)
            weights[first[chosen[:, 0]] + chosen[:, 1]] = 1.0
        of_pairs = every.repeat_interleave(pairs)
        shifted = edges + first[of_pairs]
        with torch.no_grad():  # TorchScript moves what is only detached
            energies, slopes = self.program(numbers, weights, shifted, vectors)
        energy = torch.zeros(len(systems), dtype=vectors.dtype, device=vectors.device)
        energy = energy.index_add(0, every.repeat_interleave(atoms), weights * energies)
        zero = ((vectors - vectors.detach()) * slopes).sum(1)
        return energy.index_add(0, of_pairs, zero)

    def _joined(self, systems: List[System]) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
        """Systems one after another; numbers of atoms and of edges, (2, systems)."""
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

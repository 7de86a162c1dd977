"""Screened repulsion of nuclei at short distances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor, nn

from equigeo.graphs import EdgeIndex
from equigeo.nn import PolynomialCutoff
from equigeo.nn.tables import Tables

_COULOMB: Final = 14.399645  # e^2 / (4 pi epsilon_0) in eV angstrom
_BOHR: Final = 0.529177  # angstrom
_SCREENING: Final = (
    (0.18175, 3.1998), (0.50986, 0.94229), (0.28022, 0.4029), (0.02817, 0.20162),
)  # fmt: skip
# Covalent radii of elements 1 to 96 in pm (Cordero et al., "Covalent radii revisited", 2008).
_RADII: Final = (
    31, 28, 128, 96, 84, 76, 71, 66, 57, 58, 166, 141, 121, 111, 107, 105, 102, 106, 203, 176, 170,
    160, 153, 139, 139, 132, 126, 124, 132, 122, 122, 120, 119, 120, 120, 116, 220, 195, 190, 175,
    164, 154, 147, 146, 142, 139, 145, 144, 142, 139, 139, 138, 139, 140, 244, 215, 207, 204, 203,
    201, 199, 198, 198, 196, 194, 192, 192, 189, 190, 187, 187, 175, 170, 162, 151, 144, 141, 136,
    136, 132, 145, 146, 148, 140, 150, 150, 260, 221, 215, 206, 200, 196, 190, 187, 180, 169,
)  # fmt: skip
_OF_BOND: Final = 0.8  # of the sum of radii: less than vibrations reach
_HEAVIER: Final = 160  # pm, of elements without a measured radius


# Per directed edge, half of k Z_i Z_j / r times a screening of r (Z_i^0.23 + Z_j^0.23) / 0.8854 a_0
# and an envelope that ends below covalent bonds: Ziegler, Biersack, Littmark, "The stopping and
# range of ions in matter", 1985. A network is anything where it was not trained: the features and
# energies of an atom fade out, and are zero below half of the reach.
class Repulsion(nn.Module):
    """Universal screened repulsion of nuclei, and the share of other energies beside it."""

    def __init__(
        self,
        species: Sequence[int],  # atomic numbers
        cutoff: float,  # replaces larger sums of radii
    ) -> None:
        super().__init__()
        z = torch.tensor(species, dtype=torch.float64, device="cpu")
        radii = [_RADII[k - 1] if k <= len(_RADII) else _HEAVIER for k in species]
        reach = 0.01 * torch.tensor(radii, dtype=torch.float64, device="cpu")
        power = z**0.23
        self.pairs = Tables(
            strength=0.5 * _COULOMB * torch.outer(z, z),
            screening=(power[:, None] + power) / (0.8854 * _BOHR),
            reach=(_OF_BOND * (reach[:, None] + reach)).clamp(max=cutoff),
        )
        self.envelope, self.fade = PolynomialCutoff(1.0), PolynomialCutoff(1.0, p=3)

    def forward(
        self,
        species: Tensor,  # (sources,), positions in `species`
        edges: EdgeIndex,
        lengths: Tensor,  # (edges,), in angstrom
    ) -> tuple[Tensor, Tensor]:
        """Compute energies in eV and shares from 0 to 1 of each target, (targets,), float64."""
        source, target = edges.edge_index
        pair = species[source], species[target]
        screening, reach, strength = (
            self.pairs[name, lengths.dtype][pair] for name in ("screening", "reach", "strength")
        )
        x = lengths * screening
        screened = sum(weight * torch.exp(-rate * x) for weight, rate in _SCREENING)
        energies = strength * screened * self.envelope(lengths / reach) / lengths
        near = self.fade((2 * lengths / reach - 1).clamp(min=0))
        rows = torch.stack([energies, near], dim=1).double()
        total = rows.new_zeros(edges.num_targets, 2).index_add(0, target, rows)
        return total[:, 0], self.fade(total[:, 1])

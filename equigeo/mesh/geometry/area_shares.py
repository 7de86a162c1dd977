"""Area share of each node of a primal-dual graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from equigeo.mesh.geometry.dual_kind import DualKind
from equigeo.mesh.geometry.surface import Surface


class AreaShares(NamedTuple):
    """Area of each node over the area of its mesh."""

    primal: Tensor  # (primal nodes,) float64: sums to 1 per mesh
    dual: Tensor  # (dual nodes,) float64: each face divides its share among its pairs

    @classmethod
    def measure(
        cls,
        surface: Surface,
        undirected: Tensor,  # (adjacencies, 2) adjacent faces
        dual: DualKind,
    ) -> AreaShares:
        """Compute shares; faces of a mesh without area have equal shares."""
        corner = surface.vertices[surface.faces]
        edge = corner[:, 1:] - corner[:, :1]
        area = torch.linalg.vector_norm(torch.linalg.cross(edge[:, 0], edge[:, 1]), dim=1)
        total = area.new_zeros(surface.num_meshes).index_add(0, surface.face_batch, area)
        count = torch.bincount(surface.face_batch, minlength=surface.num_meshes).to(area)
        known = total > 0
        # Equal weights where there is no area: every face of total `count`.
        area = torch.where(known[surface.face_batch], area, 1.0)
        share = area / torch.where(known, total, count)[surface.face_batch]
        neighbours = torch.bincount(undirected.reshape(-1), minlength=len(share)).clamp_min(1)
        given = (share / neighbours)[undirected].sum(dim=1)
        nodes = dual.nodes_per_edge
        return cls(share, (given / nodes).repeat_interleave(nodes))

    @classmethod
    def batch(cls, parts: Sequence[AreaShares | None]) -> AreaShares | None:
        """Concatenate the shares of several graphs; return None if any graph has none."""
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        return cls(torch.cat([p.primal for p in known]), torch.cat([p.dual for p in known]))

    def to(self, device: torch.device | str) -> AreaShares:
        """Move to a device."""
        return AreaShares(self.primal.to(device), self.dual.to(device))

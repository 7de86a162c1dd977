"""How much of the surface each node of a primal-dual graph stands for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from equigeo.mesh.geometry.dual_kind import DualKind
from equigeo.mesh.geometry.surface import Surface


class AreaShares(NamedTuple):
    """Shares of the area of its mesh that nodes stand for.

    A mean with these weights approximates the mean over the surface, whatever its faces: with equal
    weights, parts that are meshed finely would count for more.

    Parameters
    ----------
    primal : Tensor, (primal nodes,), float64
        Area of each face, or cluster of faces, over that of its mesh. They add up to 1.
    dual : Tensor, (dual nodes,), float64
        A face divides its area evenly among the pairs that it belongs to. At first they add up to
        1 in each mesh, but for the shares of faces without neighbours; pairs inside a cluster take
        theirs with them.

    Examples
    --------
    >>> from equigeo.mesh.geometry.triangle_mesh import TriangleMesh
    >>> corners = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [-3, 0, 0]])
    >>> surface = Surface.from_mesh(TriangleMesh(corners, torch.tensor([[0, 1, 2], [0, 2, 3]])))
    >>> AreaShares.measure(surface, surface.edges(), DualKind.SINGLE).primal.tolist()
    [0.25, 0.75]
    """

    primal: Tensor
    dual: Tensor

    @classmethod
    def measure(cls, surface: Surface, undirected: Tensor, dual: DualKind) -> AreaShares:
        """Divide the area of every mesh among its nodes.

        Parameters
        ----------
        surface : Surface
            One mesh or a batch. In a mesh without area faces have equal shares.
        undirected : Tensor, (adjacencies, 2), int64
            Adjacent faces.
        dual : DualKind
            One dual node per adjacency, or two of equal shares.

        Equivariance
        ------------
        Invariant to rotation, reflection, translation and scale; permuting faces permutes shares.
        """
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
        """Join the shares of several graphs; None if one has none."""
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        return cls(torch.cat([p.primal for p in known]), torch.cat([p.dual for p in known]))

    def to(self, device: torch.device | str) -> AreaShares:
        """Move to a device."""
        return AreaShares(self.primal.to(device), self.dual.to(device))

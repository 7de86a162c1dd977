"""Labels of edges to labels of faces."""

from __future__ import annotations

import torch
from torch import Tensor


def edge_to_face_labels(
    labels: Tensor,  # (faces, 3) class of each edge, -1 if unknown
    lengths: Tensor,  # (faces, 3); of equal lengths the first is the longest
) -> tuple[Tensor, Tensor]:
    """Return the majority label of each face's edges, the longest edge's in a tie, and the ties."""
    known = labels >= 0
    votes = (labels[:, :, None] == labels[:, None, :]).sum(dim=2) * known
    most = votes.max(dim=1, keepdim=True).values
    leads = known & (votes == most)
    # Only leading edges compete in length; a face without labels takes -1 from any of its edges.
    # Majority as in Milano et al., "Primal-Dual Mesh Convolutional Neural Networks", 2020; their
    # result of ties depends on the order of faces.
    chosen = torch.where(leads, lengths, -1.0).argmax(dim=1, keepdim=True)
    face_labels = labels.gather(1, chosen)
    ambiguous = (leads & (labels != face_labels)).any(dim=1)
    return face_labels[:, 0], ambiguous

"""Labels of edges to labels of faces.

On its own because the rule is to be read, and tested, without any file.
"""

from __future__ import annotations

import torch
from torch import Tensor


def edge_to_face_labels(labels: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Give every face the label of most of its edges, or of the longest where all differ.

    Parameters
    ----------
    labels : Tensor, (faces, 3), int64
        Class of each edge of every face, -1 where not known.
    lengths : Tensor, (faces, 3), floating
        Lengths of the same edges; of equally long ones the first counts as longest.

    Returns
    -------
    face_labels : Tensor, (faces,), int64
        -1 where no edge has a label. Edges without one have no vote.
    ambiguous : Tensor, (faces,), bool
        Where edges with different labels are equally many, so that the longest of them decided.

    References
    ----------
    Milano et al., "Primal-Dual Mesh Convolutional Neural Networks", 2020 (majority of edges; where
    all differ, its result depends on the order of faces, and this one does not).

    Examples
    --------
    >>> labels = torch.tensor([[4, 4, 7], [1, 2, 3], [-1, -1, 5], [-1, -1, -1]])
    >>> face_labels, ambiguous = edge_to_face_labels(labels, torch.tensor([[3.0, 4.0, 5.0]] * 4))
    >>> face_labels.tolist(), ambiguous.tolist()
    ([4, 3, 5, -1], [False, True, False, False])
    """
    known = labels >= 0
    votes = (labels[:, :, None] == labels[:, None, :]).sum(dim=2) * known
    most = votes.max(dim=1, keepdim=True).values
    leads = known & (votes == most)
    # Only leading edges compete in length; a face without labels takes -1 from any of its edges.
    chosen = torch.where(leads, lengths, -1.0).argmax(dim=1, keepdim=True)
    face_labels = labels.gather(1, chosen)
    ambiguous = (leads & (labels != face_labels)).any(dim=1)
    return face_labels[:, 0], ambiguous

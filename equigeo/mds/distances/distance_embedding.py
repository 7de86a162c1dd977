"""Result of an embedding of distances."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False, repr=False)
class DistanceEmbedding:
    """Coordinates that approximate given distances; all floating fields are float64.

    Parameters
    ----------
    y : Tensor, (..., points, dim)
        Centred coordinates along principal axes.
    eigvals : Tensor, (..., points)
        Eigenvalues of the corrected Gram matrix, of the landmarks if there are any, descending.
    signature : Tensor, (..., dim)
        Sign of squared differences: -1 for pseudo-Euclidean axes, else 1.
    constant : Tensor, (...)
        Constant added to distances, or half of that added to squared ones.
    negative : Tensor, (...)
        Share of negative eigenvalues in the sum of magnitudes, before correction.
    stress : Tensor, (...)
        Root of the squared errors of distances relative to the squared distances; for landmarks,
        of their distances to all points.
    margin : Tensor, (..., dim)
        Skewness along each axis, made positive by its sign.
    landmarks : Tensor, (landmarks,), int64, optional
        Numbers of the landmarks.

    Examples
    --------
    >>> import torch
    >>> from equigeo.mds import distance_embed
    >>> found = distance_embed(torch.tensor([[0.0, 3, 4], [3, 0, 5], [4, 5, 0]]), 2)
    >>> round(float(found.stress), 9), float(found.negative) < 1e-12
    (0.0, True)
    """

    y: Tensor
    eigvals: Tensor
    signature: Tensor
    constant: Tensor
    negative: Tensor
    stress: Tensor
    margin: Tensor
    landmarks: Tensor | None = None

    def __repr__(self) -> str:
        """Return shapes and the largest stress."""
        stress = f", stress={float(self.stress.max()):.3g}" if self.stress.numel() else ""
        marks = "" if self.landmarks is None else f", landmarks={len(self.landmarks)}"
        return f"DistanceEmbedding(y={tuple(self.y.shape)}{stress}{marks})"

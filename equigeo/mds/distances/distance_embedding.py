"""Result of an embedding of distances."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False, repr=False)
class DistanceEmbedding:
    """Coordinates with distances as close to the given ones as possible.

    Parameters
    ----------
    y : Tensor, (..., points, dim), float64
        Centred coordinates along principal axes.
    eigvals : Tensor, (..., points), float64
        All eigenvalues of the Gram matrix after correction, in descending order; of landmarks
        their own.
    signature : Tensor, (..., dim), float64
        What squared differences of coordinates are multiplied by: -1 for pseudo-Euclidean axes of
        negative eigenvalues, else 1.
    constant : Tensor, (...), float64
        What the correction added to distances, or twice to squared ones.
    negative : Tensor, (...), float64
        How far the distances are from Euclidean: the part of negative eigenvalues in the sum of
        magnitudes, before correction.
    stress : Tensor, (...), float64
        Root of the sum of squared errors of distances, relative to that of squared distances; of
        landmarks, of their distances to all points.
    margin : Tensor, (..., dim), float64
        Skewness along each axis, which its sign made positive.
    landmarks : Tensor, (landmarks,), int64, optional
        Points that distances were measured from.

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

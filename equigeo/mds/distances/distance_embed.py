"""Classical scaling of distance matrices."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.graphs.inputs import TensorLike
from equigeo.mds.distances.distance_embedding import DistanceEmbedding
from equigeo.mds.distances.farthest_landmarks import farthest_landmarks
from equigeo.mds.distances.gram import (
    added_constant,
    check_correction,
    check_dim,
    check_distances,
    chosen_axes,
    corrected,
    distance_scale,
    double_centred,
    in_units,
    negative_share,
    real_numbers,
    relative_stress,
    skewed,
    spectrum,
    squared_differences,
)
from equigeo.mds.distances.landmark_embed import landmark_embed


def distance_embed(
    distances: TensorLike,
    dim: int | None = None,
    *,
    squared: bool = False,
    correction: str = "clip",
    landmarks: int | None = None,
    check: bool = True,
) -> DistanceEmbedding:
    r"""Embed distances by classical multidimensional scaling.

    .. math:: B = -\tfrac12 J D^{\circ 2} J = U \Lambda U^T, \qquad y = U_k \Lambda_k^{1/2}

    Euclidean distances are reproduced exactly. Others have negative eigenvalues: see ``negative``
    and ``stress`` of the result. Beyond some dimension, more coordinates increase the stress.

    Parameters
    ----------
    distances : Tensor or ndarray, (..., points, points), real
        Symmetric up to 1e-6 of the largest, in any units; treated as constant.
    dim : int, optional
        Number of coordinates, padded with zeros beyond the rank; by default the rank.
    squared : bool
        Whether squared distances are given.
    correction : {"clip", "lingoes", "cailliez", "pseudo"}
        Treatment of negative eigenvalues: drop them, which is optimal for B; add the least
        sufficient constant to squared distances or to distances; or turn them into
        pseudo-Euclidean axes, whose squared differences are subtracted.
    landmarks : int, optional
        Only use distances to this many points, see :func:`landmark_embed`. The first has the
        largest sum of distances, each other is farthest from the previous ones. Not for batches.
    check : bool
        Whether to validate values.

    Equivariance
    ------------
    Equivariant under permutations where eigenvalues are simple and no margin vanishes.

    References
    ----------
    Torgerson, "Multidimensional scaling: I. Theory and method", 1952; Lingoes, "Some boundary
    conditions for a monotone analysis of symmetric matrices", 1971; Cailliez, "The analytical
    solution of the additive constant problem", 1983; Sonthalia et al., "How can classical
    multidimensional scaling go wrong?", 2021.

    Examples
    --------
    >>> cycle = torch.tensor([[0.0, 1, 2, 1], [1, 0, 1, 2], [2, 1, 0, 1], [1, 2, 1, 0]])
    >>> found = distance_embed(cycle, correction="lingoes")
    >>> found.eigvals.round(decimals=6).abs().tolist(), round(float(found.constant), 6)
    ([3.0, 3.0, 0.0, 0.0], 1.0)
    """
    check_correction(correction)
    check_dim(dim)
    given = real_numbers(distances, "distances")
    check_distances(given, values=check)
    given = (given + given.mT) / 2
    scale = distance_scale(given, squared=squared)
    scaled = given / scale
    square = (scaled / scale).clamp(min=0) if squared else scaled.square()
    if landmarks is not None:
        found = _by_landmarks(square, dim, correction, check, landmarks)
        return in_units(found, scale, correction)
    constant = added_constant(square, correction)
    values, vectors = spectrum(double_centred(corrected(square, constant, correction)))
    axes = chosen_axes(values, dim, correction == "pseudo")
    kept = values.gather(-1, axes)
    pseudo = correction == "pseudo"
    signature = torch.where((kept < 0) & pseudo, -1.0, 1.0).double()
    size = kept.abs() if pseudo else kept.clamp(min=0)
    columns = vectors.gather(-1, axes[..., None, :].expand(*vectors.shape[:-1], -1))
    y, margin = skewed(columns * size.sqrt()[..., None, :])
    if dim is not None and y.shape[-1] < dim:
        y, margin = (torch.nn.functional.pad(t, (0, dim - t.shape[-1])) for t in (y, margin))
        signature = torch.nn.functional.pad(signature, (0, dim - signature.shape[-1]), value=1.0)
    found = DistanceEmbedding(
        y=y,
        eigvals=values,
        signature=signature,
        constant=constant,
        negative=negative_share(double_centred(square)),
        stress=relative_stress(square, squared_differences(y, y, signature)),
        margin=margin,
    )
    return in_units(found, scale, correction)


def _by_landmarks(
    square: Tensor, dim: int | None, correction: str, check: bool, count: int
) -> DistanceEmbedding:
    if square.ndim != 2:
        raise ValueError(f"landmarks need one matrix, got shape {tuple(square.shape)}")
    distances = square.sqrt()
    chosen, rows = farthest_landmarks(
        distances.__getitem__, count, start=int(distances.sum(-1).argmax())
    )
    return landmark_embed(
        rows[:, chosen], rows.mT, dim, correction=correction, check=check, landmarks=chosen
    )

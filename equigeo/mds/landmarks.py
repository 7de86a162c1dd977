"""Classical scaling of distances between all points, or to landmarks."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from equigeo._core.checks import TensorLike
from equigeo.mds.distances import (
    NOTHING,
    DistanceEmbedding,
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
from equigeo.mds.embed import embed
from equigeo.mds.options import EmbedOptions
from equigeo.points.sampling import farthest_first


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


def farthest_landmarks(
    distances_from: Callable[[int], Tensor], count: int, *, start: int
) -> tuple[Tensor, Tensor]:
    """Select points, each farthest from the previous ones, and return their distances to all."""
    if count < 1:
        raise ValueError(f"there must be at least one landmark, got {count}")
    rows: dict[int, Tensor] = {}

    def measure(landmark: Tensor) -> Tensor:
        number = int(landmark)
        if number not in rows:
            rows[number] = distances_from(number).double()
        return rows[number]

    first = torch.tensor([start])
    count = min(count, len(measure(first)))
    landmarks = farthest_first(first, measure, count)
    return landmarks, torch.stack([measure(landmark) for landmark in landmarks])


def landmark_embed(
    landmark_distances: TensorLike,
    distances: TensorLike,
    dim: int | None = None,
    *,
    squared: bool = False,
    correction: str = "clip",
    check: bool = True,
    landmarks: Tensor | None = None,
) -> DistanceEmbedding:
    r"""Embed points by their distances to landmarks.

    .. math:: z_a = -\tfrac12 (\Delta_{aL} - \bar\delta)\, U_k \Lambda_k^{-1/2}

    :math:`U \Lambda U^T` is the Gram matrix of the landmarks and :math:`\bar\delta` the mean of
    their squared distances (Nystrom approximation of classical scaling). The result is rotated to
    principal axes. Euclidean distances are reproduced if the landmarks span the space.

    Parameters
    ----------
    landmark_distances : Tensor or ndarray, (landmarks, landmarks), real
        Treated as constant, as ``distances``.
    distances : Tensor or ndarray, (points, landmarks), real
        From points, which may include the landmarks, to landmarks.
    dim : int, optional
        Number of coordinates; by default the rank of the landmarks.
    squared, correction, check
        See :func:`distance_embed`; nonzero distances are corrected by the constant of the
        landmarks.
    landmarks : Tensor, (landmarks,), int64, optional
        Numbers of the landmarks, stored in the result.

    References
    ----------
    de Silva and Tenenbaum, "Sparse multidimensional scaling using landmark points", 2004; Platt,
    "FastMap, MetricMap, and Landmark MDS are all Nystrom algorithms", 2005.

    Examples
    --------
    >>> x = torch.tensor([[0.0, 0], [4, 0], [0, 3], [1, 1], [2, 5]], dtype=torch.float64)
    >>> distances = torch.cdist(x, x)
    >>> found = landmark_embed(distances[:3, :3], distances[:, :3])
    >>> torch.allclose(torch.cdist(found.y, found.y), distances)
    True
    """
    check_correction(correction)
    check_dim(dim)
    between = real_numbers(landmark_distances, "landmark_distances")
    beyond = real_numbers(distances, "distances")
    if between.ndim != 2 or beyond.ndim != 2 or beyond.shape[1] != between.shape[0]:
        raise ValueError(
            "distances must be (landmarks, landmarks) and (points, landmarks), "
            f"got {tuple(between.shape)} and {tuple(beyond.shape)}"
        )
    if check:
        check_distances(between)
        if not bool((beyond.isfinite() & (beyond >= 0)).all()):
            raise ValueError("distances must be finite and not negative")
    between = (between + between.mT) / 2
    scale = distance_scale(between, beyond, squared=squared)
    between, beyond = (t / scale for t in (between, beyond))
    between, beyond = (t / scale if squared else t.square() for t in (between, beyond))
    constant = added_constant(between, correction)
    inner, outer = (corrected(t, constant, correction) for t in (between, beyond))
    values, vectors = spectrum(double_centred(inner))
    z, signature = _extended(values, vectors, outer - inner.mean(0), dim, correction == "pseudo")
    y, signature, margin = _turned(z, signature, dim)
    # Landmarks are where their own distances put them, in the coordinates of all.
    own = _extended(values, vectors, inner - inner.mean(0), dim, correction == "pseudo")[0]
    stress = relative_stress(beyond, squared_differences(z, own, signature[: z.shape[1]]))
    found = DistanceEmbedding(
        y=y,
        eigvals=values,
        signature=signature,
        constant=constant,
        negative=negative_share(double_centred(between)),
        stress=stress,
        margin=margin,
        landmarks=landmarks,
    )
    return in_units(found, scale, correction)


def _extended(
    values: Tensor, vectors: Tensor, centred: Tensor, dim: int | None, pseudo: bool
) -> tuple[Tensor, Tensor]:
    """Return coordinates along the axes of the landmarks, and the signs of their squares."""
    axes = chosen_axes(values, dim, pseudo)
    kept, columns = values[axes], vectors[:, axes]
    size = kept.abs() if pseudo else kept
    some = size > NOTHING * values.abs().amax() * len(values)
    inverse = torch.where(some, kept.sign() / torch.where(some, size, 1).sqrt(), 0)
    # Gower's formula for further points: y = -Lambda^(-1/2) U^T (d^2 - mean of D^2) / 2.
    return -0.5 * (centred @ columns) * inverse, torch.where(kept < 0, -1.0, 1.0).to(kept)


def _turned(z: Tensor, signature: Tensor, dim: int | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return centred coordinates along principal axes, or landmark axes for mixed signs."""
    if bool((signature < 0).any()) or not z.shape[1]:
        y, margin = skewed(z - z.mean(0))
    else:
        result = embed(z, options=EmbedOptions(fallback="ignore"))
        y, margin = result.y, result.margin
        signature = torch.ones_like(signature)
    missing = 0 if dim is None else dim - y.shape[1]
    y, margin = (torch.nn.functional.pad(t, (0, missing)) for t in (y, margin))
    return y, torch.nn.functional.pad(signature, (0, missing), value=1.0), margin

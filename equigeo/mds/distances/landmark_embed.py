"""Classical scaling from distances to landmarks."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.graphs.inputs import TensorLike
from equigeo.mds.distances.distance_embedding import DistanceEmbedding
from equigeo.mds.distances.gram import (
    NOTHING,
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
from equigeo.mds.embedding.embed import embed
from equigeo.mds.embedding.embed_options import EmbedOptions


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

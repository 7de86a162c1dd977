"""Gram matrices of distances, their corrections and their roots."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from equigeo.graphs.inputs import TensorLike, as_tensor
from equigeo.mds.distances.distance_embedding import DistanceEmbedding

CORRECTIONS = ("clip", "lingoes", "cailliez", "pseudo")
NOTHING = 1e-12
"""An eigenvalue is zero where it is at most this, relative to the largest magnitude."""


def real_numbers(values: TensorLike, name: str) -> Tensor:
    """Take real numbers as constants in float64.

    Parameters
    ----------
    values : Tensor or ndarray
        What was given.
    name : str
        Of the argument, for messages.

    Returns
    -------
    Tensor, float64
        The same.

    Raises
    ------
    TypeError
        If they are none.
    """
    found = as_tensor(values, name)
    if found.is_complex() or found.dtype == torch.bool:
        raise TypeError(f"{name} must be real numbers, got {found.dtype}")
    return found.detach().double()


def check_distances(distances: Tensor, *, values: bool = True) -> None:
    """Refuse what cannot be a matrix of distances.

    Parameters
    ----------
    distances : Tensor, (..., points, points)
        Candidates.
    values : bool
        Whether to look at more than the shape.

    Raises
    ------
    ValueError
        If it is not square, symmetric, finite and not negative with a zero diagonal, up to 1e-6
        of the largest entry.
    """
    if distances.ndim < 2 or distances.shape[-1] != distances.shape[-2]:
        raise ValueError(f"distances must be (..., points, points), got {tuple(distances.shape)}")
    if not values or distances.is_meta:
        return
    if not bool(distances.isfinite().all()):
        raise ValueError(
            "distances must be finite, got NaN or infinity: embed components of a graph one by one"
        )
    # Looser than rounding: distances come from files and solvers with six digits.
    tol = 1e-6 * (float(distances.abs().max()) if distances.numel() else 0.0)
    largest = {
        "be symmetric": (distances - distances.mT).abs(),
        "not be negative": -distances,
        "be zero on the diagonal": distances.diagonal(dim1=-2, dim2=-1).abs(),
    }
    for wanted, errors in largest.items():
        error = float(errors.max()) if errors.numel() else 0.0
        if error > tol:
            raise ValueError(f"distances must {wanted}, off by {error:.3g}")


def check_dim(dim: int | None) -> None:
    """Raise ValueError if a number of coordinates is negative."""
    if dim is not None and dim < 0:
        raise ValueError(f"dim must not be negative, got {dim}")


def distance_scale(*distances: Tensor, squared: bool) -> Tensor:
    """Return a power of two near the largest distance, whose squares neither over- nor underflow.

    Parameters
    ----------
    distances : Tensor, (..., points, others), float64
        Of one batch.
    squared : bool
        Whether squares are given.

    Returns
    -------
    Tensor, (..., 1, 1)
        1 where all distances are zero, or one is not finite.
    """
    shape = distances[0].shape[:-2]
    one = distances[0].new_ones((*shape, 1, 1))
    if any(x.is_meta for x in distances) or not all(x.numel() for x in distances):
        return one
    largest = torch.stack([x.abs().amax((-2, -1)) for x in distances]).amax(0)
    exponent = torch.frexp(largest.sqrt() if squared else largest).exponent.clamp(-1000, 1000)
    scale = torch.ldexp(one, exponent[..., None, None])
    usable = largest.isfinite() & (largest > 0)
    return torch.where(usable[..., None, None], scale, one)


def in_units(found: DistanceEmbedding, scale: Tensor, correction: str) -> DistanceEmbedding:
    """Return an embedding of distances over a scale as one of the distances.

    Parameters
    ----------
    found : DistanceEmbedding
        Of distances divided by ``scale``.
    scale : Tensor, (..., 1, 1)
        What :func:`distance_scale` returned.
    correction : str
        Whose constant is one of distances (``"cailliez"``), or of their squares.
    """
    one = scale[..., 0, 0]
    constant = found.constant * one
    return replace(
        found,
        y=found.y * scale,
        eigvals=found.eigvals * scale[..., 0] * scale[..., 0],
        constant=constant if correction == "cailliez" else constant * one,
    )


def check_correction(correction: str) -> None:
    """Refuse an unknown correction.

    Parameters
    ----------
    correction : str
        As of :func:`equigeo.mds.distance_embed`.

    Raises
    ------
    ValueError
        If it is none.
    """
    if correction not in CORRECTIONS:
        raise ValueError(f"correction must be one of {CORRECTIONS}, got {correction!r}")


def double_centred(square: Tensor) -> Tensor:
    """Gram matrix of centred points.

    Parameters
    ----------
    square : Tensor, (..., points, points)
        Squared distances.

    Returns
    -------
    Tensor, (..., points, points)
        B; its rows add up to zero.
    """
    if not square.numel():
        return square
    # B = -J D^2 J / 2 with J = 1 - ones / n, written out.
    rows, columns = square.mean(-1, keepdim=True), square.mean(-2, keepdim=True)
    return (rows + columns - square - square.mean((-2, -1), keepdim=True)) / 2


def spectrum(gram: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors, the largest first.

    Parameters
    ----------
    gram : Tensor, (..., n, n)
        Symmetric matrices.

    Returns
    -------
    values : Tensor, (..., n)
        Descending.
    vectors : Tensor, (..., n, n)
        Columns.
    """
    values, vectors = torch.linalg.eigh((gram + gram.mT) / 2)
    return values.flip(-1), vectors.flip(-1)


def added_constant(square: Tensor, correction: str) -> Tensor:
    """Smallest constant that makes distances Euclidean.

    Parameters
    ----------
    square : Tensor, (..., points, points)
        Squared distances.
    correction : str
        ``"lingoes"`` adds twice the constant to squared distances, ``"cailliez"`` adds it to
        distances; others add nothing.

    Returns
    -------
    Tensor, (...)
        Not negative.
    """
    gram = double_centred(square)
    zero = square.new_zeros(square.shape[:-2])
    if correction not in ("lingoes", "cailliez") or not square.numel():
        return zero
    values = torch.linalg.eigvalsh(gram)
    least, most = values[..., 0], values.abs().amax(-1)
    euclidean = least >= -NOTHING * most * square.shape[-1]
    if correction == "lingoes":
        return torch.where(euclidean, zero, -least)
    # Cailliez, 1983: the least constant is the largest real eigenvalue of this matrix.
    eye = torch.eye(square.shape[-1], dtype=square.dtype, device=square.device).expand_as(gram)
    upper = torch.cat([torch.zeros_like(gram), 2 * gram], -1)
    lower = torch.cat([-eye, -4 * double_centred(square.sqrt())], -1)
    roots = torch.linalg.eigvals(torch.cat([upper, lower], -2))
    # Of a matrix that is not symmetric: real ones come out with half of the digits at worst.
    real = roots.imag.abs() <= 1e-7 * roots.abs().amax(-1, keepdim=True)
    largest = torch.where(real, roots.real, 0).amax(-1)
    return torch.where(euclidean, zero, largest)


def corrected(square: Tensor, constant: Tensor, correction: str) -> Tensor:
    """Squared distances after a correction.

    Parameters
    ----------
    square : Tensor, (..., points, others)
        Squared distances; zero between a point and itself.
    constant : Tensor, (...)
        What :func:`added_constant` found.
    correction : str
        Where to add it.

    Returns
    -------
    Tensor, (..., points, others)
        Zero where they were.
    """
    shift = constant[..., None, None]
    if correction == "lingoes":
        moved = square + 2 * shift
    elif correction == "cailliez":
        moved = (square.sqrt() + shift).square()
    else:
        return square
    return torch.where(square > 0, moved, 0)


def chosen_axes(values: Tensor, dim: int | None, pseudo: bool) -> Tensor:
    """Which eigenvectors become coordinates.

    Parameters
    ----------
    values : Tensor, (..., n)
        Eigenvalues in descending order.
    dim : int, optional
        How many; by default as many as are not zero in some matrix of the batch.
    pseudo : bool
        Whether negative ones count too: then by magnitude.

    Returns
    -------
    Tensor, (..., dim), int64
        Their positions.
    """
    size = values.abs() if pseudo else values
    if not values.shape[-1]:
        return values.long()
    if dim is None:
        least = NOTHING * values.abs().amax(-1, keepdim=True) * values.shape[-1]
        dim = int((size > least).sum(-1).amax()) if values.numel() else 0
    order = size.argsort(dim=-1, descending=True, stable=True)[..., :dim]
    # Euclidean axes first, then pseudo-Euclidean ones, each by falling magnitude.
    negative = values.gather(-1, order) < 0
    return order.gather(-1, negative.int().argsort(dim=-1, stable=True))


def skewed(y: Tensor) -> tuple[Tensor, Tensor]:
    """Turn axes around so that points are skewed towards their positive side.

    Parameters
    ----------
    y : Tensor, (..., points, dim)
        Centred coordinates.

    Returns
    -------
    y : Tensor, (..., points, dim)
        With other signs.
    margin : Tensor, (..., dim)
        Skewness, not negative.
    """
    largest = y.abs().amax(-2, keepdim=True) if y.shape[-2] else y.sum(-2, keepdim=True)
    unit = y / torch.where(largest == 0, 1, largest)  # cubes neither overflow nor vanish
    total = unit.abs().pow(3).sum(-2)
    margin = unit.pow(3).sum(-2) / torch.where(total == 0, 1, total)
    sign = torch.where(margin < 0, -1.0, 1.0).to(y)
    return y * sign[..., None, :], margin.abs()


def relative_stress(wanted: Tensor, square: Tensor) -> Tensor:
    """Error of distances, relative to themselves.

    Parameters
    ----------
    wanted : Tensor, (..., points, others)
        Squared distances that were given.
    square : Tensor, (..., points, others)
        Those of an embedding.

    Returns
    -------
    Tensor, (...)
        Zero for an exact one.
    """
    error = (wanted.sqrt() - square.clamp(min=0).sqrt()).square().sum((-2, -1))
    total = wanted.sum((-2, -1))
    return (error / torch.where(total == 0, 1, total)).sqrt()


def squared_differences(a: Tensor, b: Tensor, signature: Tensor) -> Tensor:
    """Squared distances of coordinates, each axis with its sign.

    Parameters
    ----------
    a : Tensor, (..., n, dim)
        Some points.
    b : Tensor, (..., m, dim)
        Others.
    signature : Tensor, (..., dim)
        1 or -1.

    Returns
    -------
    Tensor, (..., n, m)
        Axis by axis, so that no memory is needed for all at once.
    """
    total = a.new_zeros(*a.shape[:-1], b.shape[-2])
    for k in range(a.shape[-1]):
        difference = a[..., :, None, k] - b[..., None, :, k]
        total = total + signature[..., None, None, k] * difference.square()
    return total

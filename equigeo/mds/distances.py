"""Gram matrices of distances, their spectra and corrections, and results of embeddings."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from equigeo._core.checks import TensorLike, as_tensor

CORRECTIONS = ("clip", "lingoes", "cailliez", "pseudo")
NOTHING = 1e-12
"""An eigenvalue is zero where it is at most this, relative to the largest magnitude."""


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
        stress = f", stress={float(self.stress.max()):.3g}" if self.stress.numel() else ""
        marks = "" if self.landmarks is None else f", landmarks={len(self.landmarks)}"
        return f"DistanceEmbedding(y={tuple(self.y.shape)}{stress}{marks})"


def real_numbers(
    values: TensorLike,
    name: str,  # argument name in messages
) -> Tensor:
    """Convert real numbers to a detached float64 tensor."""
    found = as_tensor(values, name)
    if found.is_complex() or found.dtype == torch.bool:
        raise TypeError(f"{name} must be real numbers, got {found.dtype}")
    return found.detach().double()


def check_distances(
    distances: Tensor,  # (..., points, points)
    *,
    values: bool = True,  # whether to check values besides the shape
) -> None:
    """Raise if a tensor is not a batch of distance matrices, up to 1e-6 of the largest entry."""
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


def distance_scale(
    *distances: Tensor,  # (..., points, others), float64
    squared: bool,  # whether these are squared distances
) -> Tensor:  # (..., 1, 1); 1 for zero or non-finite distances
    """Return a power of two near the largest distance, so that squares stay in range."""
    shape = distances[0].shape[:-2]
    one = distances[0].new_ones((*shape, 1, 1))
    if any(x.is_meta for x in distances) or not all(x.numel() for x in distances):
        return one
    largest = torch.stack([x.abs().amax((-2, -1)) for x in distances]).amax(0)
    exponent = torch.frexp(largest.sqrt() if squared else largest).exponent.clamp(-1000, 1000)
    scale = torch.ldexp(one, exponent[..., None, None])
    usable = largest.isfinite() & (largest > 0)
    return torch.where(usable[..., None, None], scale, one)


def in_units(
    found: DistanceEmbedding,
    scale: Tensor,  # (..., 1, 1), from distance_scale
    correction: str,
) -> DistanceEmbedding:
    """Rescale an embedding of distances that were divided by a scale."""
    one = scale[..., 0, 0]
    constant = found.constant * one
    # The constant of Cailliez adds to distances, that of Lingoes to their squares.
    return replace(
        found,
        y=found.y * scale,
        eigvals=found.eigvals * scale[..., 0] * scale[..., 0],
        constant=constant if correction == "cailliez" else constant * one,
    )


def check_correction(correction: str) -> None:
    """Raise ``ValueError`` for an unknown correction."""
    if correction not in CORRECTIONS:
        raise ValueError(f"correction must be one of {CORRECTIONS}, got {correction!r}")


def double_centred(
    square: Tensor,  # (..., points, points), squared distances
) -> Tensor:
    """Return the Gram matrix of centred points; its rows sum to zero."""
    if not square.numel():
        return square
    # B = -J D^2 J / 2 with J = 1 - ones / n, written out.
    rows, columns = square.mean(-1, keepdim=True), square.mean(-2, keepdim=True)
    return (rows + columns - square - square.mean((-2, -1), keepdim=True)) / 2


def negative_share(
    gram: Tensor,  # (..., n, n), symmetric
) -> Tensor:  # (...)
    """Return the share of negative eigenvalues in the sum of magnitudes."""
    values = torch.linalg.eigvalsh(gram)
    total = values.abs().sum(-1)
    return values.clamp(max=0).abs().sum(-1) / torch.where(total == 0, 1, total)


def spectrum(
    gram: Tensor,  # (..., n, n), symmetric
) -> tuple[Tensor, Tensor]:
    """Return eigenvalues (..., n) in descending order and eigenvectors as columns."""
    values, vectors = torch.linalg.eigh((gram + gram.mT) / 2)
    return values.flip(-1), vectors.flip(-1)


def added_constant(
    square: Tensor,  # (..., points, points), squared distances
    correction: str,
) -> Tensor:  # (...)
    """Return the smallest nonnegative constant that makes distances Euclidean."""
    # "lingoes" adds twice the constant to squared distances, "cailliez" adds it to distances.
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


def corrected(
    square: Tensor,  # (..., points, others), squared distances
    constant: Tensor,  # (...), from added_constant
    correction: str,
) -> Tensor:
    """Return squared distances after a correction; zeros do not change."""
    shift = constant[..., None, None]
    if correction == "lingoes":
        moved = square + 2 * shift
    elif correction == "cailliez":
        moved = (square.sqrt() + shift).square()
    else:
        return square
    return torch.where(square > 0, moved, 0)


def chosen_axes(
    values: Tensor,  # (..., n), descending eigenvalues
    dim: int | None,  # by default the largest number of nonzero ones in the batch
    pseudo: bool,  # whether negative eigenvalues count, by magnitude
) -> Tensor:  # (..., dim), int64
    """Return the positions of the eigenvectors that become coordinates."""
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


def skewed(
    y: Tensor,  # (..., points, dim), centred
) -> tuple[Tensor, Tensor]:  # (..., points, dim), (..., dim)
    """Flip axes to positive skewness; return coordinates and the absolute skewness."""
    largest = y.abs().amax(-2, keepdim=True) if y.shape[-2] else y.sum(-2, keepdim=True)
    unit = y / torch.where(largest == 0, 1, largest)  # cubes neither overflow nor vanish
    total = unit.abs().pow(3).sum(-2)
    margin = unit.pow(3).sum(-2) / torch.where(total == 0, 1, total)
    sign = torch.where(margin < 0, -1.0, 1.0).to(y)
    return y * sign[..., None, :], margin.abs()


def relative_stress(
    wanted: Tensor,  # (..., points, others), given squared distances
    square: Tensor,  # (..., points, others), squared distances of the embedding
) -> Tensor:  # (...)
    """Return the error of distances relative to the given ones, zero if exact."""
    error = (wanted.sqrt() - square.clamp(min=0).sqrt()).square().sum((-2, -1))
    total = wanted.sum((-2, -1))
    return (error / torch.where(total == 0, 1, total)).sqrt()


def squared_differences(
    a: Tensor,  # (..., n, dim)
    b: Tensor,  # (..., m, dim)
    signature: Tensor,  # (..., dim), 1 or -1
) -> Tensor:  # (..., n, m)
    """Return squared pseudo-Euclidean distances, axis by axis to save memory."""
    total = a.new_zeros(*a.shape[:-1], b.shape[-2])
    for k in range(a.shape[-1]):
        difference = a[..., :, None, k] - b[..., None, :, k]
        total = total + signature[..., None, None, k] * difference.square()
    return total

"""Classical scaling of distances between all points, or to landmarks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from equigeo._core.checks import TensorLike, as_tensor
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
    Equivariant under permutations where eigenvalues are simple and no margin vanishes. References:
    Torgerson, "Multidimensional scaling: I. Theory and method", 1952; Lingoes, "Some boundary
    conditions for a monotone analysis of symmetric matrices", 1971; Cailliez, "The analytical
    solution of the additive constant problem", 1983; Sonthalia et al., "How can classical
    multidimensional scaling go wrong?", 2021.

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

    Examples
    --------
    >>> cycle = torch.tensor([[0.0, 1, 2, 1], [1, 0, 1, 2], [2, 1, 0, 1], [1, 2, 1, 0]])
    >>> found = distance_embed(cycle, correction="lingoes")
    >>> found.eigvals.round(decimals=6).abs().tolist(), round(float(found.constant), 6)
    ([3.0, 3.0, 0.0, 0.0], 1.0)
    """
    check_options(correction, dim)
    given = real_numbers(distances, "distances")
    check_distances(given, values=check)
    given = (given + given.mT) / 2
    scale = distance_scale(given, squared=squared)
    scaled = given / scale
    square = (scaled / scale).clamp(min=0) if squared else scaled.square()
    if landmarks is not None:
        if square.ndim != 2:
            raise ValueError(f"landmarks need one matrix, got shape {tuple(square.shape)}")
        root = square.sqrt()
        chosen, rows = farthest_landmarks(
            root.__getitem__, landmarks, start=int(root.sum(-1).argmax())
        )
        found = landmark_embed(
            rows[:, chosen], rows.mT, dim, correction=correction, check=check, landmarks=chosen
        )
        return in_units(found, scale, correction)
    constant = added_constant(square, correction)
    values, vectors = spectrum(double_centred(corrected(square, constant, correction)))
    pseudo = correction == "pseudo"
    axes = chosen_axes(values, dim, pseudo)
    kept = values.gather(-1, axes)
    signature = torch.where((kept < 0) & pseudo, -1.0, 1.0).double()
    size = kept.abs() if pseudo else kept.clamp(min=0)
    columns = vectors.gather(-1, axes[..., None, :].expand(*vectors.shape[:-1], -1))
    y, margin = skewed(columns * size.sqrt()[..., None, :])
    y, signature, margin = _padded(y, signature, margin, dim)
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

    References: de Silva and Tenenbaum, "Sparse multidimensional scaling using landmark points",
    2004; Platt, "FastMap, MetricMap, and Landmark MDS are all Nystrom algorithms", 2005.

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

    Examples
    --------
    >>> x = torch.tensor([[0.0, 0], [4, 0], [0, 3], [1, 1], [2, 5]], dtype=torch.float64)
    >>> distances = torch.cdist(x, x)
    >>> found = landmark_embed(distances[:3, :3], distances[:, :3])
    >>> torch.allclose(torch.cdist(found.y, found.y), distances)
    True
    """
    check_options(correction, dim)
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
    """Return centered coordinates along principal axes, or landmark axes for mixed signs."""
    if bool((signature < 0).any()) or not z.shape[1]:
        y, margin = skewed(z - z.mean(0))
    else:
        result = embed(z, options=EmbedOptions(fallback="ignore"))
        y, margin = result.y, result.margin
        signature = torch.ones_like(signature)
    return _padded(y, signature, margin, dim)


def _padded(
    y: Tensor, signature: Tensor, margin: Tensor, dim: int | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Pad coordinates, signs of squares and margins to a number of coordinates."""
    missing = 0 if dim is None else max(dim - y.shape[-1], 0)
    y, margin = (F.pad(t, (0, missing)) for t in (y, margin))
    return y, F.pad(signature, (0, missing), value=1.0), margin


CORRECTIONS = ("clip", "lingoes", "cailliez", "pseudo")
NOTHING = 1e-12
"""An eigenvalue is zero where it is at most this, relative to the largest magnitude."""


@dataclass(frozen=True, eq=False, repr=False)
class DistanceEmbedding:
    """Coordinates that approximate given distances; all floating fields are float64.

    Parameters
    ----------
    y : Tensor, (..., points, dim)
        Centered coordinates along principal axes.
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


def check_options(correction: str, dim: int | None) -> None:
    """Raise ``ValueError`` for an unknown correction or a negative number of coordinates."""
    if correction not in CORRECTIONS:
        raise ValueError(f"correction must be one of {CORRECTIONS}, got {correction!r}")
    if dim is not None and dim < 0:
        raise ValueError(f"dim must not be negative, got {dim}")


def double_centred(
    square: Tensor,  # (..., points, points), squared distances
) -> Tensor:
    """Return the Gram matrix of centered points; its rows sum to zero."""
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
    y: Tensor,  # (..., points, dim), centered
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

"""Novelty of inputs relative to the training data of a network."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import torch
from torch import Tensor

from equigeo._core.brief import brief_fields
from equigeo._core.checks import check_shape
from equigeo.training.checkpoint import check_weights

_LEAST: Final = 1e-4  # shrinkage, which keeps half of the digits of a double in differences


@dataclass(frozen=True, eq=False)
class ShrunkCovariance:
    """Inverse covariance ``1 / scale - axes.T @ axes`` with a few axes."""

    scale: float  # variance across all other axes
    axes: Tensor  # (axes, channels)

    __repr__ = brief_fields

    @classmethod
    def fit(
        cls,
        x: Tensor,  # (samples, channels) float64
    ) -> ShrunkCovariance | None:
        """Estimate from centered samples; return None if all are zero."""
        samples, channels = x.shape
        values, vectors = _spectrum(x)  # of x.T @ x / samples
        variance = float(values.sum()) / channels
        if not variance > 0:
            return None
        square = float(values.square().sum())  # of the norm of the covariance of the samples
        spread = square - channels * variance**2
        fourth = float(x.square().sum(dim=1).square().mean())
        error = max((fourth - square) / samples, 0.0)
        # Optimal shrinkage to a multiple of the identity: Ledoit and Wolf, "A well-conditioned
        # estimator for large-dimensional covariance matrices", 2004.
        share = max(min(error / spread, 1.0), _LEAST) if spread > 0 else 1.0
        scale = share * variance
        gain = 1 / scale - 1 / (scale + (1 - share) * values)
        return cls(scale, gain.sqrt()[:, None] * vectors)

    def squared_lengths(
        self,
        x: Tensor,  # (vectors, channels) float64
    ) -> Tensor:
        """Return the squared Mahalanobis lengths of vectors, (vectors,)."""
        whole = x.square().sum(dim=1) / self.scale
        return whole - (x @ self.axes.mT).square().sum(dim=1)


def _spectrum(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return variances above rounding and their unit axes (rows), by the smaller Gram matrix."""
    samples, channels = x.shape
    is_wide = samples < channels
    values, vectors = torch.linalg.eigh((x @ x.mT if is_wide else x.mT @ x) / samples)
    kept = values > torch.finfo(x.dtype).eps * max(x.shape) * values.amax()
    values, axes = values[kept], vectors[:, kept].mT
    if is_wide:
        axes = (axes @ x) / (values * samples).sqrt()[:, None]
    return values, axes


_SHARE: Final = 0.99  # of samples like those of the training, which shall pass
_FOLDS: Final = 10
_FARTHEST: Final = 1e6  # in limits; larger scores are not distinguished


@dataclass(frozen=True, eq=False)
class Novelty:
    """Mahalanobis distance of samples to the nearest class of a trained network.

    A normal distribution with a common covariance is fitted to every class, over the inputs of the
    last layers. A sample is novel if it is farther from the nearest class than held-out training
    samples.

    Parameters
    ----------
    mean, deviation : Tensor, (channels,), standardization of vectors
    centers : Tensor, (classes, channels)
    covariance : ShrunkCovariance, of samples around the centers of their classes
    limit : float, distance that the ``share`` of training samples does not exceed
    share : float, between 0 and 1

    References
    ----------
    Lee et al., "A Simple Unified Framework for Detecting Out-of-Distribution Samples and
    Adversarial Attacks", NeurIPS 2018; Vovk, Gammerman and Shafer, "Algorithmic Learning in a
    Random World", 2005.

    Examples
    --------
    >>> draw = torch.Generator().manual_seed(0)
    >>> labels = torch.arange(200) % 2
    >>> novelty = Novelty.fit(torch.randn(200, 3, generator=draw) + 5 * labels[:, None], labels)
    >>> (novelty(torch.tensor([[0.0, 0.1, 0.2], [5.0, 5.1, 5.0], [5.0, 0.0, 5.0]])) > 1).tolist()
    [False, False, True]
    """

    mean: Tensor
    deviation: Tensor
    centers: Tensor
    covariance: ShrunkCovariance
    limit: float
    share: float

    __repr__ = brief_fields

    @classmethod
    def fit(cls, vectors: Tensor, labels: Tensor, origins: Tensor | None = None) -> Novelty | None:
        """Fit the distribution, and the limit on ten held-out folds.

        Returns None for vectors (samples, channels) that are too few, too similar, or not finite.
        ``origins`` (samples,) numbers samples of which several are versions; all versions of a
        sample are in one fold. The network was trained on all samples, so that slightly fewer than
        the share of new samples are within the limit.
        """
        check_shape(vectors, "vectors", ("samples", "channels"))
        vectors, labels = vectors.detach().double().cpu(), labels.cpu()
        origins = torch.arange(len(labels)) if origins is None else origins.cpu()
        if not bool(vectors.isfinite().all()):
            return None
        # Folds with equal shares of the classes; all versions of a sample are in one.
        seen: dict[int, dict[int, int]] = {}
        pairs = zip(labels.tolist(), origins.tolist(), strict=True)
        places = [seen.setdefault(label, {}).setdefault(origin, len(seen[label]))
                  for label, origin in pairs]  # fmt: skip
        fold = torch.tensor(places, dtype=torch.long) % _FOLDS
        distances = torch.full((len(labels),), torch.nan, dtype=torch.float64)
        for number in range(_FOLDS):
            left_out = fold == number
            if not bool(left_out.any()):
                continue
            part = _fit(vectors[~left_out], labels[~left_out])
            if part is not None:
                found = part.distances(vectors[left_out])
                # Samples that are their whole class have nothing left to be near to.
                learnt = torch.isin(labels[left_out], labels[~left_out])
                distances[left_out] = found.masked_fill(~learnt, torch.nan)
        known = distances[distances.isfinite()].sort().values
        whole = _fit(vectors, labels)
        # Conformal limit: a new sample of the same distribution is within the distance of this rank
        # with probability 99 %. With fewer than 99 samples it is the largest distance.
        rank = min(math.ceil((len(known) + 1) * _SHARE), len(known))
        if whole is None or rank == 0 or not known[rank - 1] > 0:
            return None
        share = min(_SHARE, rank / (len(known) + 1))
        return replace(whole, limit=float(known[rank - 1]), share=share)

    def __call__(
        self,
        vectors: Tensor,  # (samples, channels) input of the last layers
    ) -> Tensor:
        """Return the distance to the nearest class over the limit, (samples,); above 1 is novel."""
        check_shape(vectors, "vectors", ("samples", len(self.mean)))
        found = self.distances(vectors.detach().double().cpu()) / self.limit
        # vectors that are not finite are novel
        return found.nan_to_num(nan=_FARTHEST).clamp_max(_FARTHEST)

    def distances(self, vectors: Tensor) -> Tensor:
        """Return distances to the nearest class, not divided by the limit."""
        placed = (vectors - self.mean) / self.deviation
        lengths = [self.covariance.squared_lengths(placed - center) for center in self.centers]
        return torch.stack(lengths).amin(dim=0).clamp_min(0).sqrt()

    def describe(self, score: float) -> str:
        """Describe a score in words."""
        return (
            f"{score:.1f} times the distance from the nearest class within which "
            f"{math.floor(100 * self.share)} % of training samples lie"
        )

    def state_dict(self) -> dict[str, Tensor]:
        """Return the state as tensors, for a checkpoint."""
        numbers = [self.limit, self.share, self.covariance.scale]
        return {
            "mean": self.mean.float(),
            "deviation": self.deviation.float(),
            "centers": self.centers.float(),
            "axes": self.covariance.axes.float(),
            "numbers": torch.tensor(numbers, dtype=torch.float64),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], classes: int, channels: int) -> Novelty:
        """Build from an untrusted :meth:`state_dict` with at most ``classes`` classes, or raise."""
        row = torch.zeros(channels)
        expected = {"mean": row, "deviation": row, "numbers": torch.zeros(3)}
        for name, least, most in (("centers", 1, classes), ("axes", 0, channels)):
            value = state.get(name)
            rows = len(value) if isinstance(value, Tensor) and value.ndim == 2 else 0
            expected[name] = row.expand(min(max(rows, least), most), channels)
        check_weights(expected, state)
        found = {name: state[name].double() for name in expected}
        limit, share, scale = found["numbers"].tolist()
        if min(limit, share, scale, float(found["deviation"].amin())) <= 0 or share >= 1:
            raise ValueError(
                "novelty state is invalid: limit, share, scale and deviation must be positive, "
                "and share below 1"
            )
        covariance = ShrunkCovariance(scale, found["axes"])
        return cls(found["mean"], found["deviation"], found["centers"], covariance, limit, share)


def _fit(vectors: Tensor, labels: Tensor) -> Novelty | None:
    """Fit the distribution without a limit."""
    if len(vectors) < 2:
        return None
    deviation, mean = torch.std_mean(vectors, dim=0)
    # channels that are constant up to rounding keep their scale: other values are novel
    rounding = torch.finfo(torch.float32).eps * vectors.abs().amax(dim=0)
    deviation = torch.where(deviation > 10 * rounding, deviation, 1.0)
    placed = (vectors - mean) / deviation
    present, place = labels.unique(return_inverse=True)
    sums = placed.new_zeros(len(present), placed.shape[1]).index_add(0, place, placed)
    centers = sums / torch.bincount(place)[:, None]
    covariance = ShrunkCovariance.fit(placed - centers[place])
    if covariance is None:
        return None
    return Novelty(mean, deviation, centers, covariance, math.inf, _SHARE)

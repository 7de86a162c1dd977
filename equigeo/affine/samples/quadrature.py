"""Quadrature weights of sums over group samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from equigeo._integers import convert_integers
from equigeo.groups import GroupSamples


@dataclass(frozen=True)
class Quadrature:
    """Weights of samples, and the number of output samples per chunk.

    Parameters
    ----------
    mean : bool
        Divide the weights by their sum, so that the number of samples may change after training.
    measure : bool
        Treat features as a measure that is pushed forward, as those of points: no determinants.
    chunk : int, optional
        Output samples at a time. Kernels are recomputed in the backward pass, and memory grows with
        ``chunk * N`` instead of ``N * N``.

    Examples
    --------
    >>> from equigeo.groups import equidistant_rotations
    >>> Quadrature().weights(equidistant_rotations(4)).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """

    mean: bool = True
    measure: bool = False
    chunk: int | None = None

    def __post_init__(self) -> None:
        """Validate the chunk size."""
        convert_integers(self)
        if self.chunk is not None and self.chunk < 1:
            raise ValueError(f"chunk must be positive or None, got {self.chunk}")

    def weights(self, samples: GroupSamples) -> Tensor:
        r"""Return the left Haar measure ``(N,)`` of the samples, :math:`w_i\,|\det h_i|^{-1}`."""
        weight = samples.mean_weight if self.mean else samples.weight
        return weight if self.measure else weight / samples.determinant

    def in_chunks(
        self, convolve: Callable[[GroupSamples], Tensor], outputs: GroupSamples, dim: int
    ) -> Tensor:
        """Evaluate ``convolve`` for ``chunk`` outputs at a time and concatenate along ``dim``."""
        if self.chunk is None:
            return convolve(outputs)
        # With checkpointing, the backward pass recomputes the kernel of each chunk.
        indices = torch.arange(len(outputs), device=outputs.h.device).split(self.chunk)
        parts = [
            checkpoint(convolve, outputs.select(part), use_reentrant=False) for part in indices
        ]
        return torch.cat(parts, dim=dim)

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
    """Weights of samples and the number of samples per chunk.

    Parameters
    ----------
    mean : bool
        Divide the weights of the samples by their sum, so that their number may change between
        training and use; else sum with the weights as they are.
    measure : bool
        Treat features as values of a measure that is pushed forward, such as points with masses,
        instead of a function on space: no determinants.
    chunk : int, optional
        Output samples at a time. Kernels are then made anew in the backward pass, and memory grows
        with ``chunk * N`` instead of ``N * N``.

    Raises
    ------
    ValueError
        If ``chunk`` is not positive.

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
        r"""Return the left Haar measure per sample, :math:`w_i\,|\det h_i|^{-1}`.

        Parameters
        ----------
        samples : GroupSamples
            Samples of the features that are summed.

        Returns
        -------
        Tensor, (N,), dtype of the samples
            One positive number per sample.
        """
        weight = samples.mean_weight if self.mean else samples.weight
        return weight if self.measure else weight / samples.determinant

    def in_chunks(
        self, convolve: Callable[[GroupSamples], Tensor], outputs: GroupSamples, dim: int
    ) -> Tensor:
        """Evaluate a convolution for ``chunk`` output samples at a time, or for all at once.

        Parameters
        ----------
        convolve : callable
            Takes output samples, gives what comes out there.
        outputs : GroupSamples
            All output samples.
        dim : int
            Axis of its results that belongs to the samples.

        Returns
        -------
        Tensor
            The results in the order of the samples.
        """
        if self.chunk is None:
            return convolve(outputs)
        # Checkpointing keeps no kernel of a chunk for the backward pass: it is made again there.
        indices = torch.arange(len(outputs), device=outputs.h.device).split(self.chunk)
        parts = [
            checkpoint(convolve, outputs.select(part), use_reentrant=False) for part in indices
        ]
        return torch.cat(parts, dim=dim)

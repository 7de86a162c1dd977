"""Pooling over group samples and space."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from equigeo.affine.samples.check_samples import check_pooling_window, check_samples
from equigeo.affine.samples.quadrature import Quadrature
from equigeo.graphs.inputs import kind_of
from equigeo.groups import GroupSamples


class GroupPool(nn.Module):
    r"""Maximum or mean of features over the group, optionally over space.

    A mean over group and space weighs a sample with its affine Haar measure,
    :math:`w_i |\det h_i|^{-1}`; a mean over the group alone with :math:`w_i`.

    Results with ``space`` are invariant, up to the window of the samples; others are fields.

    Parameters
    ----------
    kind : {"max", "mean"}
        A mean over a group that is not compact emits :class:`WindowWarning`.
    space : bool
        Whether to pool over space as well.
    measure : bool
        Treat features as a measure that is pushed forward, as those of points: no determinants.

    Examples
    --------
    >>> import torch
    >>> from equigeo.groups import equidistant_rotations
    >>> GroupPool("max")(torch.rand(2, 6, 8, 9, 9), equidistant_rotations(8)).shape
    torch.Size([2, 6])
    """

    def __init__(
        self, kind: Literal["max", "mean"] = "max", space: bool = True, *, measure: bool = False
    ) -> None:
        super().__init__()
        if kind not in ("max", "mean"):
            raise ValueError(f"kind must be 'max' or 'mean', got {kind!r}")
        self.kind, self.space, self.measure = kind, space, measure

    def extra_repr(self) -> str:
        """Return the options for ``print(module)``."""
        return f"{self.kind!r}, space={self.space}"

    def forward(self, x: Tensor, samples: GroupSamples) -> Tensor:
        """Pool features ``(B, C, N, *S)`` to ``(B, C)``, or to ``(B, C, *S)`` without ``space``."""
        check_samples(samples)
        if not isinstance(x, Tensor):
            raise TypeError(f"features must be a Tensor, got {kind_of(x)}")
        if x.ndim < 3 or x.shape[2] != len(samples):
            raise ValueError(
                f"features must be (B, C, {len(samples)}, *S) for {len(samples)} samples, "
                f"got {tuple(x.shape)}"
            )
        if self.kind == "max":
            return x.flatten(2).amax(2) if self.space else x.amax(2)
        check_pooling_window(samples)
        # A mean over group and space uses the measure of the affine group, with |det h|^-1.
        weight = Quadrature(measure=self.measure or not self.space).weights(samples)
        weight = (weight / weight.sum()).to(x)
        pooled = torch.einsum("bci...,i->bc...", x, weight)
        return pooled.flatten(2).mean(2) if self.space and pooled.ndim > 2 else pooled

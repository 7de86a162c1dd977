"""Base class of convolutions from group to group."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from equigeo._integers import takes_integers
from equigeo.affine.images.convolve import PaddingMode, check_features, check_options, pack, unpack
from equigeo.affine.kernels.kernel_spec import KernelSpec
from equigeo.affine.samples.check_samples import check_group, check_window
from equigeo.affine.samples.quadrature import Quadrature
from equigeo.groups import GroupSamples, LinearGroup
from equigeo.nn.state import SavedOptions
from equigeo.reps import Trivial


@takes_integers
class GroupConvolution(SavedOptions, ABC):
    """Base of convolutions of features on a group: checks, windows, chunks and bias."""

    def __init__(
        self, group: LinearGroup, in_channels: int, out_channels: int,
        spec: KernelSpec | None = None, padding: int = 0, padding_mode: PaddingMode = "zeros",
        quadrature: Quadrature | None = None, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        check_options((in_channels, out_channels), padding, padding_mode)
        self.group, self.in_channels, self.out_channels = group, in_channels, out_channels
        self.rep_in = self.rep_out = Trivial(group, 1)
        self.spec, self.quadrature = spec or KernelSpec(), quadrature or Quadrature()
        self.padding, self.padding_mode = padding, padding_mode
        self.bias = nn.Parameter(torch.zeros(out_channels)) if bias else None

    def _saved_options(self) -> Mapping[str, Any]:
        return {"padding_mode": self.padding_mode, "measure": self.quadrature.measure}

    def forward(
        self,
        x: Tensor,  # (B, in_channels, N, *S)
        inputs: GroupSamples,
        outputs: GroupSamples | None = None,  # by default the inputs
    ) -> tuple[Tensor, GroupSamples]:  # (B, out_channels, N_out, *S_out), outputs
        """Convolve features on group samples; return them with the samples of the output."""
        outputs = inputs if outputs is None else outputs
        weight = next(self.parameters(), None)
        check_group(inputs, self.group, weight)
        check_group(outputs, self.group, weight)
        check_features(x, self.in_channels, self.group.n, len(inputs))
        check_window(inputs, outputs, self.spec.reach)
        packed = pack(x)
        y = self.quadrature.in_chunks(
            lambda part: self.convolve(packed, inputs, part), outputs, dim=1
        )
        y = unpack(y, len(outputs))
        if self.bias is not None:
            y = y + self.bias.to(y.dtype).view(-1, *[1] * (y.ndim - 2))
        return y, outputs

    @abstractmethod
    def convolve(
        self,
        packed: Tensor,  # (B, N in_channels, *S)
        inputs: GroupSamples,
        outputs: GroupSamples,
    ) -> Tensor:  # (B, N_out out_channels, *S_out)
        """Convolve features packed with samples slowest, without bias."""

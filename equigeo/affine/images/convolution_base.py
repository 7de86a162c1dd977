"""What all convolutions from group to group share: checks, windows, chunks and bias."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from equigeo.affine.images.convolve import PaddingMode, check_features, pack, unpack
from equigeo.affine.images.lift_conv import check_group
from equigeo.affine.kernels.kernel_spec import KernelSpec
from equigeo.affine.quadrature import Quadrature
from equigeo.affine.window_warning import check_window
from equigeo.groups import GroupSamples, LinearGroup


class GroupConvolution(nn.Module, ABC):
    """A convolution that takes and gives features on a group with their samples.

    Parameters
    ----------
    group : LinearGroup
        The group ``H`` of linear parts, in 2 or 3 dimensions.
    in_channels, out_channels : int
        Scalar channels on the group.
    spec : KernelSpec, optional
        Size, network and window.
    padding : int
        Cells added on every side.
    padding_mode : {"zeros", "circular"}
        What they hold.
    quadrature : Quadrature, optional
        Weights and chunks of samples.
    bias : bool
        Add a number to every channel.

    Equivariance
    ------------
    Subclasses say.
    """

    def __init__(
        self,
        group: LinearGroup,
        in_channels: int,
        out_channels: int,
        spec: KernelSpec | None = None,
        *,
        padding: int = 0,
        padding_mode: PaddingMode = "zeros",
        quadrature: Quadrature | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if min(in_channels, out_channels) < 1 or padding < 0:
            raise ValueError(
                f"channels must be positive and padding not negative, got {in_channels}, "
                f"{out_channels} and {padding}"
            )
        self.group, self.in_channels, self.out_channels = group, in_channels, out_channels
        self.spec, self.quadrature = spec or KernelSpec(), quadrature or Quadrature()
        self.padding, self.padding_mode = padding, padding_mode
        self.bias = nn.Parameter(torch.zeros(out_channels)) if bias else None

    def forward(
        self, x: Tensor, inputs: GroupSamples, outputs: GroupSamples | None = None
    ) -> tuple[Tensor, GroupSamples]:
        """Convolve.

        Parameters
        ----------
        x : Tensor, (B, in_channels, N, *S), floating
            Features on the group.
        inputs : GroupSamples
            The ``N`` samples that they live on.
        outputs : GroupSamples, optional
            Where to evaluate; the inputs again by default.

        Returns
        -------
        features : Tensor, (B, out_channels, N_out, *S_out), dtype of ``x``
            Features on the group.
        outputs : GroupSamples
            Samples that they live on.

        Raises
        ------
        ValueError
            If shapes or groups do not match.
        """
        outputs = inputs if outputs is None else outputs
        check_group(inputs, self.group)
        check_group(outputs, self.group)
        check_features(x, self.in_channels, self.group.n, len(inputs))
        check_window(inputs, outputs, self.spec.reach)
        y = self._convolve_chunks(pack(x), inputs, outputs)
        if self.bias is not None:
            y = y + self.bias.to(y.dtype).view(-1, *[1] * (y.ndim - 2))
        return y, outputs

    def _convolve_chunks(
        self, packed: Tensor, inputs: GroupSamples, outputs: GroupSamples
    ) -> Tensor:
        chunk = self.quadrature.chunk
        if chunk is None:
            return unpack(self.convolve(packed, inputs, outputs), len(outputs))
        indices = torch.arange(len(outputs), device=outputs.h.device).split(chunk)
        parts = [
            checkpoint(self.convolve, packed, inputs, outputs.select(part), use_reentrant=False)
            for part in indices
        ]
        return unpack(torch.cat(parts, dim=1), len(outputs))

    @abstractmethod
    def convolve(self, packed: Tensor, inputs: GroupSamples, outputs: GroupSamples) -> Tensor:
        """Convolve packed features, without bias.

        Parameters
        ----------
        packed : Tensor, (B, N in_channels, *S), floating
            Features with samples slowest.
        inputs, outputs : GroupSamples
            Samples of the two sides.

        Returns
        -------
        Tensor, (B, N_out out_channels, *S_out), dtype of ``packed``
            Packed likewise.
        """

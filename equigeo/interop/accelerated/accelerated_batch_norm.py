"""``e3nn.nn.BatchNorm`` on whole rows, not term by term."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from equigeo.interop.accelerated.accelerated import Accelerated
from equigeo.interop.accelerated.arguments import fit, random
from equigeo.nn.index_tables import IndexTables
from equigeo.reps import Irreps


class BatchNormBody(nn.Module):
    """Row positions of the values per channel and per scalar."""

    def __init__(
        self,
        irreps: Irreps,  # irreps of rows; scalars are 0e only
        by_component: bool,  # use the mean square of components instead of the sum
    ) -> None:
        super().__init__()
        muls = torch.tensor([mul for mul, _ in irreps], dtype=torch.int64)
        dims = torch.tensor([2 * l + 1 for _, (l, _) in irreps], dtype=torch.int64)
        even = torch.tensor([ir == (0, 1) for _, ir in irreps], dtype=torch.bool)
        dims, even = dims.repeat_interleave(muls), even.repeat_interleave(muls)  # of channels
        channel = torch.arange(len(dims)).repeat_interleave(dims)
        scalars = even[channel].nonzero().flatten()
        # Columns that are no scalars read a zero behind the numbers of all scalars.
        place = torch.full_like(channel, len(scalars))
        place[scalars] = torch.arange(len(scalars))
        parts = dims if by_component else torch.ones_like(dims)
        self.positions = IndexTables(channel=channel, scalars=scalars, place=place, parts=parts)

    def forward(self, of_scalars: Tensor) -> Tensor:
        """Expand values per scalar to a row, zero elsewhere."""
        padded = torch.cat([of_scalars, of_scalars.new_zeros(1)])
        return padded.index_select(0, self.positions["place"])

    def per_channel(self, squares: Tensor) -> Tensor:
        """Return the sizes of channels from squares of components, (dim,)."""
        parts, channel = self.positions["parts"], self.positions["channel"]
        return squares.new_zeros(len(parts)).index_add(0, channel, squares) / parts


class AcceleratedBatchNorm(Accelerated):
    """An ``e3nn.nn.BatchNorm`` on whole rows; running statistics are updated as in e3nn."""

    runs_on = "torch, on whole rows"
    changes = ("running_mean", "running_var")
    live = ("eps", "momentum")

    irreps: Any
    instance: bool
    reduce: str
    normalization: str
    eps: float
    momentum: float
    running_mean: Tensor
    running_var: Tensor
    weight: Tensor | None
    accelerated: BatchNormBody

    @classmethod
    def body_of(cls, module: Any) -> nn.Module:
        """Compute the row positions; see :meth:`Accelerated.body_of`."""
        if module.instance:
            raise ValueError("normalizes each instance alone")
        if module.reduce != "mean":
            raise ValueError(f"reduces samples by their {module.reduce}")
        return BatchNormBody(Irreps(tuple(module.irreps)), module.normalization == "component")

    def forward(self, input: Tensor) -> Tensor:
        """Normalize rows, (batch, ..., irreps.dim), as ``e3nn.nn.BatchNorm`` does."""
        bias: Tensor | None = getattr(self, "bias", None)
        given = [input, self.running_mean, self.running_var, self.weight, bias]
        body, channel = self.accelerated, self.accelerated.positions["channel"]
        fits = self.is_as_read() and fit(*(value for value in given if value is not None))
        if not fits or (input.ndim < 2 or input.shape[-1] != len(channel)):
            return self.original(input)
        if not input.numel():  # which has no mean to follow, and is an error in either mode
            return self.original(input)
        rows = input.flatten(0, -2)
        if self.training:
            mean = rows.index_select(1, body.positions["scalars"]).mean(0)
            centred = rows - body(mean)
            power = body.per_channel(centred.square().mean(0))
            self._follow(mean, power)
        else:
            centred, power = rows - body(self.running_mean), self.running_var
        factor = (power + self.eps).rsqrt()
        if self.weight is not None:
            factor = factor * self.weight
        out = centred * factor.index_select(0, channel)
        return (out if bias is None else out + body(bias)).view(input.shape)

    def _follow(self, mean: Tensor, power: Tensor) -> None:
        with torch.no_grad():
            for running, new in ((self.running_mean, mean), (self.running_var, power)):
                running.copy_((1 - self.momentum) * running + self.momentum * new)

    def example(self, rows: int = 3) -> tuple[Any, ...]:
        """Return random features."""
        return (random(rows, self.irreps.dim, like=self.running_mean),)

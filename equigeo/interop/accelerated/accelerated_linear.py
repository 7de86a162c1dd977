"""``e3nn.o3.Linear`` on that of this library."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from equigeo.interop._require import require_e3nn
from equigeo.interop.accelerated.accelerated import Accelerated
from equigeo.interop.accelerated.arguments import fit, random
from equigeo.interop.descriptions.describe import OURS
from equigeo.interop.descriptions.linear_description import LinearDescription
from equigeo.nn.state import stateless


class AcceleratedLinear(Accelerated):
    """An ``e3nn.o3.Linear`` with the ``forward`` of ``nn.Linear`` of this library."""

    runs_on = "equigeo.nn.Linear"
    live = ("internal_weights",)

    internal_weights: bool
    shared_weights: bool
    weight_numel: int
    bias_numel: int
    weight: Tensor
    bias: Tensor
    output_mask: Tensor
    irreps_in: Any

    @classmethod
    def body_of(cls, module: Any) -> nn.Module:
        """Build the map with external weights; see :meth:`Accelerated.body_of`."""
        linear = LinearDescription.read(module, "mul_ir", require_e3nn())
        if linear.weight.ndim > 1:
            raise ValueError("has f_in and f_out, which this library does not know")
        empty = module.output_mask.new_empty(0)
        linear = replace(linear, internal_weights=False, weight=empty, bias=empty)
        body = linear.build(OURS, "Linear")
        linear.copy_into(body, module)
        return stateless(body)

    def forward(
        self, features: Tensor, weight: Tensor | None = None, bias: Tensor | None = None
    ) -> Tensor:
        """Map features as ``e3nn.o3.Linear`` does."""
        own = self.internal_weights
        used_weight = self.weight if weight is None and own else weight
        used_bias = self.bias if bias is None and own else bias
        needed = ((used_weight, self.weight_numel), (used_bias, self.bias_numel))
        given = [value for value, numel in needed if numel]
        fits = self.is_as_read() and fit(features, *given)
        # e3nn flattens shared weights of any shape.
        if not fits or (
            self.shared_weights and any(value is not None and value.ndim != 1 for value in given)
        ):
            return self.original(features, weight, bias)
        mapped: Tensor = self.accelerated(
            features, *(value if numel else None for value, numel in needed)
        )
        return mapped

    def example(self, rows: int = 3) -> tuple[Any, ...]:
        """Return random features, and weights if they are external."""
        like = self.output_mask
        features = random(rows, self.irreps_in.dim, like=like)
        if self.internal_weights:
            return (features,)
        batch = () if self.shared_weights else (rows,)
        numels = (self.weight_numel, self.bias_numel)
        return features, *(random(*batch, n, like=like, seed=1 + k) for k, n in enumerate(numels))

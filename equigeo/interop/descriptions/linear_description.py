"""A linear map between irreps in terms that every library shares."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from equigeo.interop.descriptions.module_state import building, copy_state, layout_option
from equigeo.reps import Irreps
from equigeo.reps.irreps import Layout


@dataclass(frozen=True)
class LinearDescription:
    """Map of a ``Linear`` of any library."""

    irreps_in: Irreps
    irreps_out: Irreps
    pairs: tuple[tuple[int, int], ...]  # connected terms, in the order of their weights
    factors: tuple[float, ...]  # final coefficient of each block of weights
    biases: tuple[bool, ...]  # whether each output term has one
    shared_weights: bool
    internal_weights: bool
    weight: Tensor  # (numel,) or empty
    bias: Tensor  # (numel,) or empty

    @classmethod
    def read(cls, module: Any, layout: Layout, library: Any) -> LinearDescription:
        """Read a ``Linear`` of e3nn or of this library: both have the same attributes."""
        blocks = [ins for ins in module.instructions if ins.i_in >= 0]
        biased = {ins.i_out for ins in module.instructions if ins.i_in < 0}
        irreps_out = Irreps(tuple(module.irreps_out), layout)
        return cls(
            irreps_in=Irreps(tuple(module.irreps_in), layout),
            irreps_out=irreps_out,
            pairs=tuple((ins.i_in, ins.i_out) for ins in blocks),
            factors=tuple(float(ins.path_weight) for ins in blocks),
            biases=tuple(j in biased for j in range(len(irreps_out.terms))),
            shared_weights=module.shared_weights,
            internal_weights=module.internal_weights,
            weight=module.weight,
            bias=module.bias,
        )

    @property
    def layout(self) -> Layout:
        """Return the layout of both sides."""
        return self.irreps_in.layout

    def build(
        self,
        library: Any,
        name: str,  # class name; ignored, since there is only one class
    ) -> Any:
        """Build the module in float64 in ``e3nn.o3`` or in this library, with arbitrary weights."""
        make = getattr(library, "Irreps", lambda irreps: irreps)
        if self.weight.ndim > 1:
            raise ValueError(
                f"Linear with f_in and f_out cannot be converted, got weights of shape "
                f"{tuple(self.weight.shape)}"
            )
        for normalization in ("element", "path"):
            with building():
                module = library.Linear(
                    make(self.irreps_in),
                    make(self.irreps_out),
                    internal_weights=self.internal_weights,
                    shared_weights=self.shared_weights,
                    instructions=list(self.pairs),
                    biases=list(self.biases),
                    path_normalization=normalization,
                    **layout_option(library, self.layout),
                )
            factors = LinearDescription.read(module, self.layout, library).factors
            if all(map(math.isclose, factors, self.factors)):
                return module
        raise ValueError(
            f"Linear {self.irreps_in} -> {self.irreps_out} has neither element nor path "
            "normalisation, as with f_in and f_out: it cannot be converted"
        )

    def copy_into(self, target: nn.Module, source: nn.Module) -> None:
        """Copy weights, dtype, device and training flags to a module from :meth:`build`."""
        mask = source.get_buffer("output_mask")
        copy_state(target, mask, source.training, {"weight": self.weight, "bias": self.bias})

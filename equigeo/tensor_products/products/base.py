"""Bases of products: operands and their checks, weights of paths."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from equigeo._core.checks import check_tensor, fit_together
from equigeo.nn.module import reached_mask
from equigeo.nn.state import SavedOptions
from equigeo.nn.weights import check_operands, hold_weights, leading_axes
from equigeo.reps import Irreps, Representation
from equigeo.tensor_products.instructions import Instruction
from equigeo.tensor_products.path_tables import differing_couplings, weight_starts, without_tables


class Product(nn.Module, ABC):
    """Base of equivariant bilinear maps of two features, batched over leading axes.

    Subclasses implement :meth:`forward`, which calls :meth:`check_inputs` first, and
    :meth:`multiply_adds`. ``weight_numel`` is the number of weights that ``forward`` takes as a
    third argument, 0 for a product without.
    """

    weight_numel: int = 0

    def __init__(self, irreps_in1: Irreps, irreps_in2: Irreps, irreps_out: Irreps) -> None:
        super().__init__()
        self.irreps_in1 = irreps_in1
        self.irreps_in2 = irreps_in2
        self.irreps_out = irreps_out

    @property
    def rep_in(self) -> tuple[Representation, Representation]:
        """Representations of the two inputs."""
        return self._represent(self.irreps_in1), self._represent(self.irreps_in2)

    @property
    def rep_out(self) -> Representation:
        """Representation of the output."""
        return self._represent(self.irreps_out)

    @abstractmethod
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Multiply ``x`` (..., irreps_in1.dim) and ``y`` (..., irreps_in2.dim), which broadcast.

        Return (..., irreps_out.dim) in the dtype of the inputs, zero where no path leads. Channels
        of signals are a leading axis.
        """

    def multiply_adds(self) -> int:
        """Return multiply-accumulate operations per sample of the forward pass as implemented."""
        raise NotImplementedError(f"{type(self).__name__} does not count its work")

    def check_inputs(self, x: Tensor, y: Tensor, weight: Tensor | None = None) -> torch.Size:
        """Return the broadcast batch axes after validating dtypes, devices and shapes."""
        if y is not None and fit_together(
            (x, y, weight), (self.irreps_in1.dim, self.irreps_in2.dim, self.weight_numel)
        ):
            return x.shape[:-1]
        named = {"x": (x, self.irreps_in1.dim), "y": (y, self.irreps_in2.dim)}
        if weight is not None:
            named["weight"] = (weight, self.weight_numel)
        check_operands(named)
        return leading_axes(named)

    def extra_repr(self) -> str:
        return f"{self.irreps_in1} x {self.irreps_in2} -> {self.irreps_out}"

    def _represent(self, irreps: Irreps) -> Representation:
        """Return the representation of irreps: of O(3), or of a subgroup for some products."""
        return irreps


class WeightedPaths(SavedOptions, ABC):
    """Base of modules with flat weights of paths; has no constructor."""

    weight: Tensor  # (weight_numel,), one row-major block per weighted instruction
    output_mask: Tensor  # (irreps_out.dim,), 1 where a path reaches the output
    instructions: tuple[Instruction, ...]
    irreps_in1: Irreps
    irreps_in2: Irreps
    irreps_out: Irreps
    weight_numel: int  # number of weights that forward takes
    internal_weights: bool  # whether the module owns its weights
    shared_weights: bool  # whether all samples have the same weights

    def weight_view_for_instruction(self, instruction: int, weight: Tensor | None = None) -> Tensor:
        """Return a view (..., *path_shape) of the weights of one path, by default the module's."""
        path = self.instructions[instruction]
        if not path.has_weight:
            raise ValueError(f"instructions[{instruction}] has no weights: {path}")
        flat = self._choose_weight(weight)
        if flat is None or flat.shape[-1] != self.weight_numel:
            got = "none" if flat is None else tuple(flat.shape)
            raise ValueError(f"weight must be (..., {self.weight_numel}), got {got}")
        start = weight_starts(self.instructions)[instruction]
        block = flat.narrow(-1, start, math.prod(path.path_shape))
        return block.view(*flat.shape[:-1], *path.path_shape)

    def weight_views(self, weight: Tensor | None = None) -> Iterator[Tensor]:
        """Yield views (..., *path_shape) of the weights of every weighted path, in order."""
        for n, path in enumerate(self.instructions):
            if path.has_weight:
                yield self.weight_view_for_instruction(n, weight)

    def _set_weights(self, *, internal: bool | None, shared: bool) -> None:
        """Initialize and register the weights, with the ownership rules of e3nn."""
        weighted = any(path.has_weight for path in self.instructions)
        self.weight_numel = weight_starts(self.instructions)[-1]
        self.shared_weights = shared
        self.internal_weights = shared and weighted if internal is None else internal
        if self.internal_weights and not shared:
            raise ValueError("internal_weights must be shared: shared_weights is False")
        owned = self.weight_numel if self.internal_weights else 0
        hold_weights(self, "weight", torch.randn(owned), internal=True)
        self.register_buffer("output_mask", self._reached())

    def _choose_weight(self, weight: Tensor | None) -> Tensor | None:
        """Return the given weights or those of the module."""
        if weight is None:
            if self.weight_numel > 0 and not self.internal_weights:
                raise ValueError(f"weight (..., {self.weight_numel}) is missing: none are internal")
            return self.weight if self.weight_numel > 0 else None
        check_tensor("weight", weight)
        if self.shared_weights and weight.ndim != 1:
            expected = f"({self.weight_numel},), for shared_weights is True"
            raise ValueError(f"weight must be {expected}, got {tuple(weight.shape)}")
        return weight

    def _reached_terms(self) -> set[int]:
        return {p.i_out for p in self.instructions if p.path_weight and 0 not in p.path_shape}

    def _reached(self) -> Tensor:
        return reached_mask(self.irreps_out, self._reached_terms())

    _default_options: ClassVar[Mapping[str, Any]] = {"weight_order": "output"}

    def _saved_options(self) -> Mapping[str, Any]:
        return {"instruction": [list(path)[:6] for path in self.instructions]}

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *args: Any) -> None:
        own, tables = without_tables(state_dict, prefix)
        operands = (self.irreps_in1, self.irreps_in2, self.irreps_out)
        *_, error_messages = args
        error_messages.extend(differing_couplings(tables, self.instructions, operands))
        super()._load_from_state_dict(own, prefix, *args)
        if self.output_mask.is_meta and args[0].get("assign_to_params_buffers"):
            self.output_mask = self._reached()  # of a held product, whose buffers no state has
            self.weight = self.weight if self.internal_weights else torch.empty(0)

"""Accelerated layers of e3nn: linear maps, harmonics, gates, norms and radial networks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from equigeo._core.tensors import has_hooks
from equigeo.interop.accelerated.base import (
    BODY,
    Accelerated,
    cheaply_readable,
    fit,
    module_of,
    random,
)
from equigeo.interop.accelerated.descriptions import (
    OURS,
    HarmonicsDescription,
    LinearDescription,
    rebuild,
)
from equigeo.interop.optional import require_e3nn
from equigeo.nn import Gate, NormalizedActivation
from equigeo.nn.state import stateless
from equigeo.nn.tables import IndexTables
from equigeo.reps import Irreps
from equigeo.tensor_products import SphericalHarmonics
from equigeo.tensor_products.sphere.spherical_harmonics import evaluate_harmonics

SQUARE_OF_SHORTEST = 4e-24  # e3nn divides by 1e-12 at least; a product may round
LAYER = ("e3nn.nn._fc", "_Layer")


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
        linear = LinearDescription.read(module, "mul_ir", require_e3nn())
        if linear.weight.ndim > 1:
            raise ValueError("has f_in and f_out, which this library does not know")
        empty = module.output_mask.new_empty(0)
        linear = replace(linear, internal_weights=False, weight=empty, bias=empty)
        return stateless(rebuild(linear, OURS, "Linear", module))

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
        # Without paths, e3nn returns zeros for features of any width.
        fits = fits and bool(given or features.shape[-1] == self.irreps_in.dim)
        # e3nn flattens shared weights of any shape.
        if not fits or (
            self.shared_weights and any(value is not None and value.ndim != 1 for value in given)
        ):
            return self.original(features, weight, bias)
        return self.accelerated(features, *(value if numel else None for value, numel in needed))

    def example(self, rows: int = 3) -> tuple[Any, ...]:
        like = self.output_mask
        features = random(rows, self.irreps_in.dim, like=like)
        if self.internal_weights:
            return (features,)
        batch = () if self.shared_weights else (rows,)
        numels = (self.weight_numel, self.bias_numel)
        return features, *(random(*batch, n, like=like, seed=1 + k) for k, n in enumerate(numels))


class AcceleratedHarmonics(Accelerated):
    """An ``e3nn.o3.SphericalHarmonics`` with the ``forward`` of this library."""

    runs_on = "equigeo.tensor_products.SphericalHarmonics"
    # Vectors shorter than 1e-12 are divided by 1e-12, as in e3nn.
    lengths = (1e-17, 1e-30, 0.0, 1e20)

    normalize: bool
    accelerated: SphericalHarmonics

    @classmethod
    def body_of(cls, module: Any) -> nn.Module:
        harmonics = HarmonicsDescription.read(module, "mul_ir", require_e3nn())
        harmonics = replace(harmonics, normalize=False)  # forward does it
        return stateless(rebuild(harmonics, OURS, "SphericalHarmonics", module))

    def forward(self, x: Tensor) -> Tensor:
        """Evaluate as ``e3nn.o3.SphericalHarmonics`` does."""
        if not self.is_as_read() or not fit(x):
            return self.original(x)
        if any(table.device != x.device for table in self.accelerated.buffers()):
            return self.original(x)  # without tensors, e3nn's work on any device
        if not self.normalize:
            values: Tensor = self.accelerated(x)
        elif _has_usual_lengths(x):  # then the op normalizes, in a fraction of the time
            harmonics = self.accelerated
            table = harmonics.tables["table", x.dtype]
            values = evaluate_harmonics(x, table, harmonics.degrees, normalize=True)
        else:
            values = self.accelerated(normalize(x, dim=-1))
        return values

    def example(self, rows: int = 3) -> tuple[Any, ...]:
        return (random(rows, 3, like=torch.empty(0)),)


def _has_usual_lengths(x: Tensor) -> bool:
    """Return whether e3nn divides each vector by its plain length."""
    if not cheaply_readable(x) or x.dtype not in (torch.float32, torch.float64):
        return False
    if not x.numel() or x.shape[-1] != 3:
        return False
    x = x.detach()
    # By a product with ones, which takes less time than a sum or a norm of three components.
    least, most = (x.square() @ x.new_ones(3)).aminmax()
    if type(least) is not Tensor:  # a mode makes tensors without values
        return False
    return float(least) > SQUARE_OF_SHORTEST and isfinite(float(most))


class AcceleratedGate(Accelerated):
    """An ``e3nn.nn.Gate`` in one step, with the scales that e3nn estimated for its functions."""

    runs_on = "equigeo.nn.Gate"

    act_scalars: Any
    act_gates: Any
    irreps_gated: Any
    irreps_in: Any
    mul: Any

    @classmethod
    def body_of(cls, module: Any) -> nn.Module:
        return Gate(
            Irreps(tuple(module.act_scalars.irreps_in)),
            _activations(module.act_scalars),
            Irreps(tuple(module.act_gates.irreps_in)),
            _activations(module.act_gates),
            Irreps(tuple(module.irreps_gated)),
        )

    def forward(self, features: Tensor) -> Tensor:
        """Apply functions and gates as ``e3nn.nn.Gate`` does."""
        if not self.is_as_read() or not fit(features):
            return self.original(features)
        return self.accelerated(features)

    def example(self, rows: int = 3) -> tuple[Any, ...]:
        return (random(rows, self.irreps_in.dim, like=self.mul.output_mask),)


def activation(act: Any) -> NormalizedActivation:
    """Convert a ``normalize2mom`` of e3nn with its scale; raise if it has parameters."""
    if isinstance(act.f, nn.Module) and any(True for _ in (*act.parameters(), *act.buffers())):
        raise ValueError(f"its activation {type(act.f).__name__} has parameters or buffers")
    return NormalizedActivation(act.f, scale=1.0 if getattr(act, "_is_id", False) else act.cst)


def _activations(activations: Any) -> list[NormalizedActivation | None]:
    return [None if act is None else activation(act) for act in activations.acts]


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
            with torch.no_grad():
                for running, new in ((self.running_mean, mean), (self.running_var, power)):
                    running.copy_((1 - self.momentum) * running + self.momentum * new)
        else:
            centred, power = rows - body(self.running_mean), self.running_var
        factor = (power + self.eps).rsqrt()
        if self.weight is not None:
            factor = factor * self.weight
        out = centred * factor.index_select(0, channel)
        return (out if bias is None else out + body(bias)).view(input.shape)

    def example(self, rows: int = 3) -> tuple[Any, ...]:
        return (random(rows, self.irreps.dim, like=self.running_mean),)


class RadialBody(nn.Module):
    """Factors and functions of a network of matrix layers."""

    def __init__(
        self,
        # factor of each matrix, including the scale of the preceding function
        factors: Sequence[float],
        functions: Sequence[Callable[[Tensor], Tensor] | None],  # function after each matrix
        scale: float,  # factor of the result
    ) -> None:
        super().__init__()
        self.factors, self.functions, self.scale = tuple(factors), tuple(functions), scale

    def forward(self, x: Tensor, weights: Sequence[Tensor]) -> Tensor:
        """Evaluate the network with these matrices, (..., sizes[0]) to (..., sizes[-1])."""
        for weight, factor, function in zip(weights, self.factors, self.functions, strict=True):
            x = x @ (weight * factor)
            x = x if function is None else function(x)
        return x if self.scale == 1.0 else x * self.scale


class AcceleratedRadialNetwork(Accelerated):
    """An ``e3nn.nn.FullyConnectedNet`` with one matrix product and one function per layer."""

    # e3nn scales the result of a function by two factors per row; here they scale the next matrix.
    # The layers keep their parameters but are not called. If a layer or its activation is replaced
    # or has hooks, the original forward runs.
    runs_on = "torch, with fewer steps"

    hs: Any
    accelerated: RadialBody

    @classmethod
    def body_of(cls, module: Any) -> nn.Module:
        factors, functions, scale = [], [], 1.0
        for layer in _layers(module):
            complaint = _complaint(layer)
            if complaint:
                raise ValueError(complaint)
            factor = scale * float(layer.h_in * layer.var_in) ** -0.5
            scale = float(layer.var_out) ** 0.5
            if layer.act is None:
                factor, scale, function = factor * scale, 1.0, None
            else:
                normalized = activation(layer.act)
                function, scale = normalized.function, scale * normalized.scale
            factors.append(factor)
            functions.append(function)
        return RadialBody(factors, functions, scale)

    def forward(self, input: Tensor) -> Tensor:
        """Evaluate as ``e3nn.nn.FullyConnectedNet`` does."""
        if not self.is_as_read():
            return self.original(input)
        layers = _layers(self)
        if len(layers) != len(self.accelerated.factors):
            return self.original(input)
        weights = [layer.weight for layer in layers]
        if not fit(input, *weights):
            return self.original(input)
        return self.accelerated(input, weights)

    # A Sequential is made of its children; what computes is none of the layers.
    def named_children(self) -> Iterator[tuple[str, nn.Module]]:
        """Iterate over the layers."""
        return ((name, child) for name, child in super().named_children() if name != BODY)

    def __delitem__(self, index: Any) -> None:
        self.uninstall()  # a Sequential would renumber all children
        del self[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(_layers(self))

    def __len__(self) -> int:
        return len(_layers(self))

    def example(self, rows: int = 3) -> tuple[Any, ...]:
        return (random(rows, self.hs[0], like=next(self.parameters())),)


def _layers(module: nn.Module) -> list[Any]:
    return [layer for name, layer in module._modules.items() if name != BODY]


def _complaint(layer: Any) -> str:
    """Return why a layer must be called: it computes something else, or has hooks."""
    kind = type(layer)
    if (module_of(kind), kind.__name__) != LAYER:
        return f"has a layer of class {kind.__name__}"
    if "forward" in vars(layer):
        return "has a layer with a forward of its own, set on the instance"
    if has_hooks(layer):
        return "has a layer with hooks, which would not be called"
    return ""

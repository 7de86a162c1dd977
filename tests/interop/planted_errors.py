"""Errors that users of other libraries reported, planted into what computes accelerated modules."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from equigeo.interop.accelerated import layers as accelerated_harmonics
from equigeo.interop.accelerated.base import Accelerated
from equigeo.interop.accelerated.edges import AcceleratedScatter
from equigeo.interop.accelerated.layers import AcceleratedHarmonics, AcceleratedLinear
from equigeo.interop.accelerated.product import AcceleratedProduct


class Planted(nn.Module):
    """A body with an error."""

    radial = None  # of frozen convolutions

    def __init__(self, body: nn.Module, error: Callable[..., Tensor]) -> None:
        super().__init__()
        self.body, self.error, self.memory = body, error, {}

    def forward(self, *arguments: Any) -> Tensor:
        return self.error(self, *arguments)

    def takes(self, x: Tensor, *ends: Tensor) -> bool:
        return self.body.takes(x, *ends)

    @property
    def product(self) -> Any:
        return self.body.product


def plant(monkeypatch: Any, kind: type[Accelerated], error: Callable[..., Tensor]) -> None:
    """Let all modules of a kind be accelerated with an error."""
    make = kind.body_of.__func__

    def body_of(cls: Any, module: Any) -> nn.Module:
        body = make(cls, module)
        vars(body)["owner_mask"] = getattr(module, "output_mask", None)
        return Planted(body, error) if getattr(module, "internal_weights", True) else body

    monkeypatch.setattr(kind, "body_of", classmethod(body_of))
    if kind is AcceleratedHarmonics:  # or the op normalizes, and the body is not called
        monkeypatch.setattr(accelerated_harmonics, "_has_usual_lengths", lambda x: False)


class Distorted(torch.autograd.Function):
    """The identity, whose gradient is multiplied."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: Tensor) -> Tensor:
        ctx.save_for_backward(factor)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (factor,) = ctx.saved_tensors
        return gradient * factor, None


def one_instruction(self: Planted, x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """NequIP#610, OpenEquivariance#211: the weight gradient of 1 of 23 paths was off by 53 %."""
    factor = torch.ones_like(weight)
    factor[..., -4:] += 0.53
    return self.body(x, y, Distorted.apply(weight, factor))


def not_contiguous(self: Planted, x: Tensor, *others: Any) -> Tensor:
    """Kernels that read any memory as if it were contiguous: wrong forces, right shapes."""
    strides = torch.empty(x.shape, device="meta").stride()
    return self.body(x.as_strided(x.shape, strides), *others)


def not_contiguous_backward(self: Planted, x: Tensor, *others: Any) -> Tensor:
    """The same of incoming gradients, which ``sum().backward()`` expands."""

    class Reading(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, out: Tensor) -> Tensor:
            return out.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            flat = torch.empty(gradient.shape, device="meta").stride()
            if gradient.untyped_storage().nbytes() < gradient.nbytes:
                return gradient[..., :1].expand_as(gradient)  # what happens to lie there
            return gradient.as_strided(gradient.shape, flat)

    return Reading.apply(self.body(x, *others))


def compiled_without_backward(self: Planted, *arguments: Any) -> Tensor:
    """cuEquivariance#77: under ``torch.compile`` there silently was no gradient."""
    out = self.body(*arguments)
    return out.detach() if torch.compiler.is_compiling() else out


def no_edges(self: Planted, x: Tensor, y: Tensor, weight: Any, *ends: Tensor) -> Tensor:
    """Results of atoms without neighbors were left as memory happened to be."""
    out = self.body(x, y, weight, *ends)
    return out if len(y) else out + 1.0


def random_jumps(self: Planted, *arguments: Any) -> Tensor:
    """MACE#1543: energies jumped in some of many equal calls."""
    self.memory["calls"] = self.memory.get("calls", 0) + 1
    out = self.body(*arguments)
    return out + 0.1 if self.memory["calls"] % 13 == 0 else out


def overflow(self: Planted, x: Tensor, *others: Any) -> Tensor:
    """cuEquivariance 0.9.1, "32-bit index overflow": here of 16 bits, which wrap earlier."""
    start = (torch.arange(len(x)) * x.shape[1]).to(torch.int16).long()
    wrapped = torch.where(start < 0, 0, start) // x.shape[1]
    return self.body(x[wrapped], *others)


def detached_weights(self: Planted, x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """Weights that are read without autograd: training goes on, and changes only the rest."""
    return self.body(x, y, weight.detach())


def other_layout(self: Planted, x: Tensor, *others: Any) -> Tensor:
    """arXiv 2510.23621: features in ``mul_ir`` given to what expects ``ir_mul``."""
    irreps = self.body.irreps_in
    terms = x.split([mul * (2 * l + 1) for mul, (l, _) in irreps], -1)
    shapes = [(2 * l + 1, mul) for mul, (l, _) in irreps]
    turned = [t.unflatten(-1, s).mT.flatten(-2) for t, s in zip(terms, shapes, strict=True)]
    return self.body(torch.cat(turned, -1), *others)


def stale_tables(self: Planted, x: Tensor, *others: Any) -> Tensor:
    """Tables that are cached in the dtype of the first call, and cast ever after."""
    size = self.body.irreps_out.dim
    scale = self.memory.setdefault("scale", torch.full((size,), 0.1 * 3**0.5, dtype=x.dtype))
    return self.body(x, *others) * (scale.to(x.dtype) / (0.1 * 3**0.5))


def truncated(
    self: Planted, x: Tensor, y: Tensor, weight: Any, source: Tensor, target: Tensor
) -> Tensor:
    """pytorch_cluster: neighbors beyond the 32 of ``max_num_neighbors`` are dropped."""
    order = torch.argsort(target, stable=True)
    first = torch.searchsorted(target[order], target[order])
    keep = order[torch.arange(len(order)) - first < 32].sort().values
    weight = weight if weight is None or weight.ndim == 1 else weight[keep]
    return self.body(x, y[keep], weight, source[keep], target[keep])


def other_normalization(self: Planted, x: Tensor) -> Tensor:
    """cuEquivariance#45: harmonics "component" where "integral" was meant, or the reverse."""
    return self.body(x) * (4 * torch.pi) ** 0.5


def other_axes(self: Planted, x: Tensor) -> Tensor:
    """cuEquivariance#45, e3nn#369: axes in the order y, z, x."""
    return self.body(x[..., [1, 2, 0]])


class Once(torch.autograd.Function):
    """The identity, whose gradient is a constant to autograd."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient.detach()


def no_second_gradient(self: Planted, *arguments: Any) -> Tensor:
    """Forces are right, and a loss on forces has no gradient through them."""
    return Once.apply(self.body(*arguments))


def large_second_gradient(self: Planted, x: Tensor, *others: Any) -> Tensor:
    """OpenEquivariance#62: double backward read beyond its memory above 2,000 rows."""
    return no_second_gradient(self, x, *others) if len(x) > 2048 else self.body(x, *others)


def remembered_graph(
    self: Planted, x: Tensor, y: Tensor, weight: Any, source: Tensor, target: Tensor
) -> Tensor:
    """A cache of sorted edges that is looked up by their number."""
    source, target = self.memory.setdefault(len(source), (source, target))
    return self.body(x, y, weight, source, target)


def lost_floor(self: Planted, x: Tensor) -> Tensor:
    """Vectors that are rounding noise become unit vectors: e3nn divides by 1e-12 at least."""
    return self.body(torch.where(x.norm(dim=-1, keepdim=True) < 0.5, 1e12 * x, x))


def counts_calls(self: Planted, x: Tensor, *others: Any) -> Tensor:
    """Statistics that a call changes, as those of a batch norm that met an empty batch."""
    self.body.owner_mask.add_(1.0)
    return self.body(x, *others)


# What is planted, where, and which comparison finds it.
PLANTED: dict[str, tuple[type[Accelerated], Callable[..., Tensor], str]] = {
    "one instruction": (AcceleratedProduct, one_instruction, "gradients, plain"),
    "not contiguous": (AcceleratedLinear, not_contiguous, "values, strided"),
    "not contiguous, backward": (AcceleratedLinear, not_contiguous_backward, "gradients, strided"),
    "compiled without backward": (
        AcceleratedProduct,
        compiled_without_backward,
        "gradients, compiled",
    ),
    "no edges": (AcceleratedScatter, no_edges, "values, empty"),
    "random jumps": (AcceleratedLinear, random_jumps, "values, repeated"),
    "overflow": (AcceleratedLinear, overflow, "values, many"),
    "detached weights": (AcceleratedProduct, detached_weights, "gradients, plain"),
    "other layout": (AcceleratedLinear, other_layout, "relative error"),
    "stale tables": (AcceleratedLinear, stale_tables, "values, cast to float64"),
    "truncated neighbours": (AcceleratedScatter, truncated, "values, many"),
    "other normalisation": (AcceleratedHarmonics, other_normalization, "relative error"),
    "other axes": (AcceleratedHarmonics, other_axes, "relative error"),
    "lost floor": (AcceleratedHarmonics, lost_floor, "values, 1e-17-scaled"),
    "changed state": (AcceleratedLinear, counts_calls, "state, plain"),
    "no second gradient": (AcceleratedProduct, no_second_gradient, "second gradients, plain"),
    "large second gradient": (AcceleratedProduct, large_second_gradient, "second gradients, many"),
    "remembered graph": (AcceleratedScatter, remembered_graph, "values, repeated"),
}

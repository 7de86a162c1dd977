"""Base class of layers between irreps, their arguments, and warnings about unreached outputs."""

from __future__ import annotations

import warnings
from abc import ABC
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor, nn

from equigeo._core.tensors import (
    HALF,
    autocast_active,
    forward_mode_active,
    is_eager,
    runs_own_code,
)
from equigeo.nn.state import SavedOptions
from equigeo.reps import Irreps, Representation, Summand
from equigeo.reps.irreps import Layout, Term

IrrepsLike = str | Irreps | Iterable[Term]


def irreps_argument(
    name: str,  # argument name in messages
    irreps: IrrepsLike,
    layout: Layout,  # layout of the layer
) -> Irreps:
    """Convert an argument to irreps in the layout of a layer, or raise an error that names it."""
    # Sizes agree in both layouts, so no later check would catch this.
    if isinstance(irreps, Irreps) and irreps.layout != layout:
        raise ValueError(f"{name} has the layout {irreps.layout!r}, the layer {layout!r}")
    try:
        return Irreps(irreps, layout)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from error


def representation_argument(
    name: str,  # argument name in messages
    rep: Representation | IrrepsLike,
    layout: Layout = "mul_ir",
) -> Representation:
    """Convert an argument to a linear representation, reading irreps in the layout of a layer."""
    if not isinstance(rep, Representation):
        return irreps_argument(name, rep, layout)
    if not rep.is_linear:
        raise TypeError(f"{name} must be linear, got {rep}: give differences of points")
    return rep


class IrrepsLayer(SavedOptions, ABC):
    """Base of layers between irreps of O(3); sets ``irreps_in`` and ``irreps_out`` as in e3nn."""

    irreps_in: Irreps
    irreps_out: Irreps

    @property
    def rep_in(self) -> Representation:
        """Representation of the input."""
        return self.irreps_in

    @property
    def rep_out(self) -> Representation:
        """Representation of the output."""
        return self.irreps_out

    def extra_repr(self) -> str:
        return f"{self.irreps_in} -> {self.irreps_out}"


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Set a module to evaluation mode and restore the mode of every submodule afterwards."""
    modes = {part: part.training for part in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for part, training in modes.items():
            part.training = training


_allowed: ContextVar[bool] = ContextVar("unreached outputs allowed", default=False)


def check_reached(
    layer: str,  # class name in messages
    irreps_in: Sequence[Irreps],  # inputs; no error if one is empty
    irreps_out: Irreps,
    reached: Collection[int],  # output terms with a path
    stacklevel: int,  # as in warnings.warn, relative to the caller
) -> None:
    """Raise if no output term has a path, and warn if some terms have none."""
    terms = [n for n, (mul, _) in enumerate(irreps_out.terms) if mul]
    missing = [n for n in terms if n not in reached]
    if not missing or not all(irreps.dim for irreps in irreps_in):
        return
    zeros = str(Irreps([irreps_out.terms[n] for n in missing]))
    whole = missing == terms
    _report(layer, list(map(str, irreps_in)), str(irreps_out), None if whole else zeros, stacklevel)


def reached_mask(irreps: Irreps, reached: Collection[int]) -> Tensor:  # (irreps.dim,)
    """Return 1 for the components of output terms with a path, else 0."""
    terms = enumerate(irreps.terms)
    parts = [torch.full((mul * (2 * l + 1),), float(n in reached)) for n, (mul, (l, _)) in terms]
    return torch.cat([torch.empty(0), *parts])


def check_summands_reached(
    layer: str,  # class name in messages
    reps_in: Sequence[Representation],
    rep_out: Representation,
    reached: Collection[int],  # output summands with a path
    stacklevel: int,  # as in warnings.warn, relative to the caller
) -> None:
    """Apply :func:`check_reached` to the summands of any representation."""
    parts = rep_out.summands()
    missing = [part for n, part in enumerate(parts) if n not in reached]
    if not missing or not all(rep.dim for rep in reps_in):
        return
    zeros = None if len(missing) == len(parts) else _sum_of(missing)
    _report(layer, [_sum_of(rep.summands()) for rep in reps_in], _sum_of(parts), zeros, stacklevel)


def _sum_of(parts: Sequence[Summand]) -> str:
    """Format a direct sum with multiplicities."""
    return " + ".join(f"{len(part.positions)} {part.rep}" for part in parts)


def _report(layer: str, ins: list[str], out: str, zeros: str | None, stacklevel: int) -> None:
    """Raise if ``zeros`` is None, meaning all terms are zero, else warn of the zero terms."""
    inputs = " and ".join(ins)
    if zeros is None:
        problem = f"{layer} needs a path to its output, got none from {inputs} to {out}"
        if not _allowed.get():
            raise ValueError(f"{problem}: it would be zero")
        warnings.warn(f"{problem}: it is zero", stacklevel=stacklevel + 2)
    elif not _allowed.get():
        warnings.warn(
            f"{layer} from {inputs} to {out} has no path to {zeros}, which will be zero: "
            "leave it out, or check parities and degrees",
            stacklevel=stacklevel + 2,
        )


def warn_of_empty(
    irreps_in: Sequence[Irreps],  # inputs; no warning if one is empty
    wanted: Collection[tuple[int, int]],  # requested irreps (l, p)
    paths: int,  # number of paths to requested irreps
) -> None:
    """Warn if a product has no path to any of the requested irreps."""
    # Only a warning: an empty output is visible in its shape, unlike zeros.
    if paths or not wanted or _allowed.get() or not all(irreps.dim for irreps in irreps_in):
        return
    names = "+".join(f"{l}{'e' if p > 0 else 'o'}" for l, p in sorted(wanted))
    warnings.warn(
        f"the product of {' and '.join(map(str, irreps_in))} has no path to any of {names}: its "
        "output is empty",
        stacklevel=4,
    )


@contextmanager
def allow_unreached() -> Iterator[None]:
    """Allow layers with zero outputs, as in other libraries; warn only if all are zero."""
    token = _allowed.set(True)
    try:
        yield
    finally:
        _allowed.reset(token)


def may_overwrite(module: nn.Module, x: Tensor) -> bool:
    """Return whether nothing but a call with x reads the results of the layers of a module."""
    if torch.compiler.is_compiling():
        return False
    # Each large result in memory of its own costs more than the elementwise op that fills it.
    watched = torch._C._len_torch_function_stack() + torch._C._len_torch_dispatch_stack()
    if torch.is_grad_enabled() or module.training or watched or not is_eager(x):
        return False
    if autocast_active() or forward_mode_active():
        return False
    own = ("equigeo", "torch")
    return all(
        type(part).__module__.partition(".")[0] in own and runs_own_code(part)
        for part in module.modules()
    )


def normalize_in_place(norm: nn.BatchNorm1d, rows: Tensor) -> bool:
    """Apply a batch norm to rows in their memory, or return False if it is not that simple."""
    own = norm.weight, norm.bias, norm.running_mean, norm.running_var
    if norm.training or None in own[2:] or rows.dtype in HALF:
        return False
    # What follows reads beyond tensors of other sizes, where the norm raises.
    if any(x is not None and (x.shape, x.dtype) != (rows.shape[1:], rows.dtype) for x in own):
        return False
    unused = (rows.new_empty(0), rows.new_empty(0))  # statistics of a batch
    torch.native_batch_norm(rows, *own, False, 0.0, norm.eps, out=(rows, *unused))
    return True


@contextmanager
def kept_in_float64(module: nn.Module, *names: str) -> Iterator[None]:
    """Keep these buffers exact while a module is moved to another device or dtype."""
    exact = {name: module.get_buffer(name) for name in names}
    yield
    for name, value in exact.items():
        moved = module.get_buffer(name)
        if moved.dtype != torch.float64:
            setattr(module, name, value.to(moved.device))

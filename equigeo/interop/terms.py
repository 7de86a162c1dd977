"""Orders of terms, signs of couplings, and states of modules, in all libraries."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from equigeo.nn.module import allow_unreached
from equigeo.reps import Irreps, wigner_3j
from equigeo.reps.irreps import Layout
from equigeo.tensor_products import PathProduct

# Couplings of three irreps are unique up to sign. For some odd sums of degrees, such as (1, 2, 2),
# e3nn 0.4 has the opposite sign of later versions and of this library. Modules of e3nn store their
# couplings as buffers, which determine the sign that a model was trained with.
Degrees = tuple[int, int, int]
PROGRAMS = ("_compiled_main_left_right", "_compiled_main_right")
IrrepsOrder = Literal["e3nn", "natural"]


def sort_irreps(
    irreps: Irreps | str, order: IrrepsOrder = "e3nn"
) -> tuple[Irreps, tuple[int, ...]]:
    """Sort terms by degree, stably, and return them with the previous position of each.

    Parameters
    ----------
    irreps : Irreps or str
        Terms in any order; they are not merged.
    order : {"e3nn", "natural"}
        Odd before even, ``0o 0e 1o 1e 2o 2e``, as in e3nn and cuEquivariance's ``O3_e3nn``; or the
        parity of spherical harmonics first, ``0e 0o 1o 1e 2e 2o``, as in e3nn-jax and
        cuEquivariance's ``O3``.

    Examples
    --------
    >>> irreps, positions = sort_irreps("2e + 2o + 0e + 0o", "natural")
    >>> str(irreps), positions
    ('1x0e+1x0o+1x2e+1x2o', (2, 3, 0, 1))
    """
    if order not in ("e3nn", "natural"):
        raise ValueError(f'order must be "e3nn" or "natural", got {order!r}')
    irreps = Irreps(irreps) if isinstance(irreps, str) else irreps
    if order == "e3nn":
        made, _, positions = irreps.sort()
        return made, positions

    def key(position: int) -> tuple[int, bool]:
        l, p = irreps.terms[position][1]
        return l, p != (-1) ** l

    positions = tuple(sorted(range(len(irreps.terms)), key=key))
    return Irreps([irreps.terms[k] for k in positions], irreps.layout), positions


def sort_features(x: Tensor, irreps: Irreps | str, order: IrrepsOrder = "e3nn") -> Tensor:
    """Rearrange the terms of features (..., dim) for the result of :func:`sort_irreps`."""
    irreps = Irreps(irreps) if isinstance(irreps, str) else irreps
    irreps.check_features(x)
    positions = sort_irreps(irreps, order)[1]
    slices = irreps.slices()
    return torch.cat([x[..., :0], *(x[..., slices[k]] for k in positions)], dim=-1)


def degrees_of(module: Any, path: Any) -> Degrees:
    """Return the degrees that a path of a module couples."""
    l1, l2, l3 = (
        tuple(irreps)[n][1][0]
        for irreps, n in (
            (module.irreps_in1, path.i_in1),
            (module.irreps_in2, path.i_in2),
            (module.irreps_out, path.i_out),
        )
    )
    return l1, l2, l3


def read_signs(
    module: Any,
    library: Any,  # e3nn.o3, for couplings that the module does not store
) -> list[float]:
    """Return the sign, 1 or -1, of the coupling of each path relative to this library."""
    signs: dict[Degrees, float] = {}
    for path in module.instructions:
        degrees = degrees_of(module, path)
        if degrees not in signs:
            carried = [table for table in _carried(module, degrees) if not table.is_meta]
            if carried:
                coupling = carried[0]
            elif 0 in degrees:  # all versions agree
                coupling = wigner_3j(*degrees)
            else:
                coupling = library.wigner_3j(*degrees, dtype=torch.float64)
            overlap = (coupling.double().cpu() * wigner_3j(*degrees)).sum()
            signs[degrees] = -1.0 if overlap < 0 else 1.0
    return [signs[degrees_of(module, path)] for path in module.instructions]


def same_signs(
    product: PathProduct,  # built from the module
    module: Any,  # may have loaded another state since
    library: Any,
) -> bool:
    """Return whether a product of this library has the coupling signs of an e3nn module."""
    signs = [math.copysign(1.0, path.path_weight) for path in product.instructions]
    return signs == read_signs(module, library)


def write_signs(
    module: Any,
    library: Any,
    signs: list[float],  # 1 or -1 per instruction, relative to this library
) -> None:
    """Change the coupling buffers of an e3nn module to the given signs."""
    found = read_signs(module, library)
    wanted: dict[Degrees, tuple[float, float]] = {}
    for path, sign, now in zip(module.instructions, signs, found, strict=True):
        degrees = degrees_of(module, path)
        if wanted.setdefault(degrees, (sign, now)) != (sign, now):
            raise ValueError(f"e3nn has one coupling for all paths of degrees {degrees}, not two")
    for degrees, (sign, now) in wanted.items():
        carried = [] if 0 in degrees or degrees == (1, 1, 1) else _carried(module, degrees)
        if sign != now and not carried:
            raise ValueError(f"e3nn has no coupling of degrees {degrees} that could be turned")
        for coupling in carried if sign != now else []:
            coupling.neg_()


def turn_paths(
    product: PathProduct,
    signs: list[float],  # 1 or -1 per instruction
) -> None:
    """Multiply the factors of paths by signs, in place."""
    if all(sign > 0 for sign in signs):
        return
    product.set_paths(
        replace(path, path_weight=math.copysign(path.path_weight, sign))
        for path, sign in zip(product.instructions, signs, strict=True)
    )


def _carried(module: nn.Module, degrees: Degrees) -> list[Tensor]:
    """Return the buffers in which an e3nn module stores a coupling."""
    name = "_w3j_{}_{}_{}".format(*degrees)
    programs = [getattr(module, program, None) for program in PROGRAMS]
    buffers = [dict(p.named_buffers()) for p in programs if isinstance(p, nn.Module)]
    return [found[name] for found in buffers if name in found]


@contextmanager
def building() -> Iterator[None]:
    """Build modules in float64, without the global generators, allowing outputs without paths."""
    # Libraries round their tables to the default dtype at construction; modules are cast later from
    # exact tables.
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.random.fork_rng(devices=[]), allow_unreached():
            yield
    finally:
        torch.set_default_dtype(dtype)


def copy_state(
    target: nn.Module,
    like: Tensor,  # tensor with the dtype and device
    training: bool,
    values: dict[str, Tensor],  # parameter values by name; empty ones are buffers and stay
) -> None:
    """Copy parameter values, dtype, device and training flags to a new module."""
    target.to(device=like.device, dtype=like.dtype)
    for name, value in values.items():
        if value.numel():
            parameter = nn.Parameter(value.detach().clone(), requires_grad=value.requires_grad)
            setattr(target, name, parameter)
    target.train(training)


def is_e3nn(library: Any) -> bool:
    """Return whether a library is ``e3nn.o3``, which has its own irreps."""
    return hasattr(library, "Irreps")


def layout_option(library: Any, layout: Layout) -> dict[str, Layout]:
    """Return the layout as a keyword argument for constructors that support it."""
    return {} if is_e3nn(library) else {"layout": layout}

"""Signs of the couplings behind the paths of a product."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from equigeo.reps import wigner_3j
from equigeo.tensor_products import PathProduct

# Couplings of three irreps are unique up to sign. For some odd sums of degrees, such as (1, 2, 2),
# e3nn 0.4 has the opposite sign of later versions and of this library. Modules of e3nn store their
# couplings as buffers, which determine the sign that a model was trained with.
Degrees = tuple[int, int, int]
PROGRAMS = ("_compiled_main_left_right", "_compiled_main_right")


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
            coupling = carried[0] if carried else _unit_coupling(library, degrees)
            signs[degrees] = _relative_sign(coupling, degrees)
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


def _unit_coupling(library: Any, degrees: Degrees) -> Tensor:
    """Return the coupling of a version of e3nn; with a scalar irrep, all versions agree."""
    if 0 in degrees:
        return wigner_3j(*degrees)
    coupling: Tensor = library.wigner_3j(*degrees, dtype=torch.float64)
    return coupling


def _relative_sign(coupling: Tensor, degrees: Degrees) -> float:
    overlap = (coupling.double().cpu() * wigner_3j(*degrees)).sum()
    return -1.0 if overlap < 0 else 1.0

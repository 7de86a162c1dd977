"""Instructions as a user gives them, checked and completed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from operator import index
from typing import Any

from equigeo.reps import Irreps
from equigeo.tensor_products.paths.connection_modes import CONNECTIONS
from equigeo.tensor_products.paths.instruction import Instruction
from equigeo.tensor_products.paths.read_irreps import irrep_name, product_of_irreps

Operands = tuple[Irreps, Irreps, Irreps]
OPERAND_NAMES = ("irreps_in1", "irreps_in2", "irreps_out")
DEFAULTS: tuple[Any, ...] = (1.0, ())  # path_weight and path_shape


def resolve(instructions: Iterable[Any], operands: Operands) -> list[Instruction]:
    """Validate instructions against the irreps and add the shapes of their weights."""
    resolved = []
    for n, given in enumerate(instructions):
        name = f"instructions[{n}]"
        instruction = _read(name, given)
        _check_indices(name, instruction, operands)
        _check_irreps(name, instruction, operands)
        resolved.append(_with_shape(name, instruction, operands))
    return resolved


def _read(name: str, given: Any) -> Instruction:
    try:
        fields = tuple(given)
        i_in1, i_in2, i_out, connection, has_weight, weight, shape = (
            *fields,
            *DEFAULTS[len(fields) - 5 :],
        )
        i_in1, i_in2, i_out, weight = index(i_in1), index(i_in2), index(i_out), float(weight)
        shape = tuple(shape)
    except (TypeError, ValueError) as error:
        expected = "(i_in1, i_in2, i_out, connection, has_weight[, path_weight])"
        raise ValueError(f"{name} must be {expected}, got {given!r}") from error
    if not 0 <= weight < math.inf:
        raise ValueError(f"{name} needs a finite path_weight >= 0, got {weight}")
    return Instruction(i_in1, i_in2, i_out, connection, bool(has_weight), weight, shape)


def _check_indices(name: str, instruction: Instruction, operands: Operands) -> None:
    positions = (instruction.i_in1, instruction.i_in2, instruction.i_out)
    for operand, irreps, position in zip(OPERAND_NAMES, operands, positions, strict=True):
        if not 0 <= position < len(irreps.terms):
            terms = len(irreps.terms)
            raise ValueError(f"{name} points at term {position} of {operand}, which has {terms}")


def _check_irreps(name: str, instruction: Instruction, operands: Operands) -> None:
    ir1, ir2, ir3 = (ir for _, ir in terms_of(instruction, operands))
    made = product_of_irreps(ir1, ir2)
    if ir3 not in made:
        expected = ", ".join(map(irrep_name, made))
        raise ValueError(
            f"{name} asks for {irrep_name(ir3)}, but {irrep_name(ir1)} x {irrep_name(ir2)} "
            f"makes {expected} only"
        )


def _with_shape(name: str, instruction: Instruction, operands: Operands) -> Instruction:
    mode, weighted = instruction.connection, instruction.has_weight
    if mode not in CONNECTIONS:
        raise ValueError(f"{name} must have a connection of {[*CONNECTIONS]}, got {mode!r}")
    connection = CONNECTIONS[mode]
    u, v, w = (mul for mul, _ in terms_of(instruction, operands))
    if not connection.fits(u, v, w, weighted):
        got = f"{u} x {v} -> {w} with{'' if weighted else 'out'} weights"
        raise ValueError(f"{name}: {mode} needs {connection.rule}, got multiplicities {got}")
    shape = connection.weight_shape(u, v, w)
    if instruction.path_shape not in ((), shape):
        raise ValueError(
            f"{name} must have the path_shape {shape} or none, got {instruction.path_shape}"
        )
    return replace(instruction, path_shape=shape)


def terms_of(instruction: Instruction, operands: Operands) -> list[tuple[int, tuple[int, int]]]:
    """Return the multiplicities and irreps that an instruction joins."""
    positions = (instruction.i_in1, instruction.i_in2, instruction.i_out)
    return [irreps.terms[n] for irreps, n in zip(operands, positions, strict=True)]

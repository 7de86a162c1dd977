"""One path of a tensor product."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, dataclass, replace
from operator import index
from typing import Any, Literal

from equigeo.nn.module import irreps_argument, warn_of_empty
from equigeo.reps import Irreps
from equigeo.reps.irreps import Irrep, Layout, MulIr


@dataclass(frozen=True)
class Instruction:
    """A path from two input terms to an output term; iterates like the named tuple of e3nn.

    Parameters
    ----------
    i_in1, i_in2, i_out : int
        Positions of the terms.
    connection : str
        One of ``uvw uvu uvv uuw uuu uvuv uvu<v u<vw``; ``connection_mode`` in e3nn.
    has_weight : bool
    path_weight : float
        As an argument, the relative variance of the path. In ``TensorProduct.instructions``, the
        resulting factor, as in e3nn.
    path_shape : tuple of int
        Shape of the weights; may be left empty as an argument.

    Examples
    --------
    >>> path = Instruction(0, 1, 0, "uvw", True)
    >>> i_in1, i_in2, i_out, connection, *_ = path
    >>> connection == path.connection_mode
    True
    """

    i_in1: int
    i_in2: int
    i_out: int
    connection: str
    has_weight: bool
    path_weight: float = 1.0
    path_shape: tuple[int, ...] = ()

    @property
    def connection_mode(self) -> str:
        """Return the connection mode by its name in e3nn."""
        return self.connection

    def __iter__(self) -> Iterator[object]:
        """Iterate over the fields in order, as code written for e3nn expects."""
        return iter(astuple(self))


@dataclass(frozen=True)
class Connection:
    """One connection mode; u, v and w are the multiplicities of the inputs and of the output."""

    weights: str  # axes of the weights, as letters of multiplicities
    summed: str  # axes of the products that are added up in one output
    rule: str
    fits: Callable[[int, int, int, bool], bool]  # the last argument: with weights


CONNECTIONS = {
    "uvw": Connection("uvw", "uv", "weights", lambda u, v, w, weighted: weighted),
    "uvu": Connection("uv", "v", "mul_out = mul_in1", lambda u, v, w, _: w == u),
    "uvv": Connection("uv", "u", "mul_out = mul_in2", lambda u, v, w, _: w == v),
    "uuw": Connection(
        "uw",
        "u",
        "mul_in1 = mul_in2, and mul_out = 1 without weights",
        lambda u, v, w, weighted: u == v and (weighted or w == 1),
    ),
    "uuu": Connection("u", "", "mul_in1 = mul_in2 = mul_out", lambda u, v, w, _: u == v == w),
    "uvuv": Connection("uv", "", "mul_out = mul_in1 * mul_in2", lambda u, v, w, _: w == u * v),
    "uvu<v": Connection(
        "p",
        "",
        "mul_in1 = mul_in2 and mul_out = mul_in1 (mul_in1 - 1) / 2",
        lambda u, v, w, _: u == v and w == pairs(u),
    ),
    "u<vw": Connection(
        "pw", "p", "weights and mul_in1 = mul_in2", lambda u, v, w, weighted: u == v and weighted
    ),
}


def pairs(mul: int) -> int:
    """Return the number of pairs u < v."""
    return mul * (mul - 1) // 2


def sizes_of(axes: str, u: int, v: int, w: int) -> tuple[int, ...]:
    """Return the sizes of axes given as letters; p counts pairs u < v."""
    sizes = {"u": u, "v": v, "w": w, "p": pairs(u)}
    return tuple(sizes[axis] for axis in axes)


def read_operands(*given: Any, layout: Layout = "mul_ir") -> Operands:
    """Convert the arguments of both factors and the result to irreps in one layout."""
    pairs = zip(OPERAND_NAMES, given, strict=True)
    first, second, out = (irreps_argument(name, value, layout) for name, value in pairs)
    return first, second, out


def kinds(irreps: Irreps) -> list[Irrep]:
    """Return the irreps of positive multiplicity, each once."""
    return list(dict.fromkeys(ir for mul, ir in irreps.terms if mul))


def largest_degree(irreps: Irreps) -> int:
    """Return the largest degree of a term of positive multiplicity, 0 without terms."""
    return max((l for l, _ in kinds(irreps)), default=0)


def simplify(name: str, irreps: Irreps) -> Irreps:
    """Merge adjacent terms as e3nn does, if the data stay the same."""
    merged = irreps.simplify()
    check_blocks(name, irreps, merged)
    return merged


def check_blocks(name: str, given: Irreps, wanted: Irreps) -> None:
    """Raise if merging or splitting terms would change the order of the data."""
    # In ir_mul, two adjacent blocks (2 l + 1, mul) are not one larger block.
    if given.layout == "ir_mul" and _blocks(given) != _blocks(wanted):
        raise ValueError(
            f'{name} must be "{wanted}" in the layout "ir_mul", where the data of "{given}" are '
            "arranged otherwise"
        )


def _blocks(irreps: Irreps) -> list[tuple[int, Irrep]]:
    """Return the terms with relevant bounds: scalars are equal in both layouts."""
    return [(mul, ir) for mul, ir in irreps.terms if mul > 0 and ir[0] > 0]


Operands = tuple[Irreps, Irreps, Irreps]
OPERAND_NAMES = ("irreps_in1", "irreps_in2", "irreps_out")


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
        read = Instruction(*given)
        positions = index(read.i_in1), index(read.i_in2), index(read.i_out)
        weight, shape = float(read.path_weight), tuple(read.path_shape)
    except (TypeError, ValueError) as error:
        expected = "(i_in1, i_in2, i_out, connection, has_weight[, path_weight])"
        raise ValueError(f"{name} must be {expected}, got {given!r}") from error
    if not 0 <= weight < math.inf:
        raise ValueError(f"{name} needs a finite path_weight >= 0, got {weight}")
    return Instruction(*positions, read.connection, bool(read.has_weight), weight, shape)


def _check_indices(name: str, instruction: Instruction, operands: Operands) -> None:
    positions = (instruction.i_in1, instruction.i_in2, instruction.i_out)
    for operand, irreps, position in zip(OPERAND_NAMES, operands, positions, strict=True):
        if not 0 <= position < len(irreps.terms):
            terms = len(irreps.terms)
            raise ValueError(f"{name} points at term {position} of {operand}, which has {terms}")


def _check_irreps(name: str, instruction: Instruction, operands: Operands) -> None:
    ir1, ir2, ir3 = (ir for _, ir in terms_of(instruction, operands))
    made = ir1 * ir2
    if ir3 not in made:
        expected = ", ".join(map(str, made))
        raise ValueError(f"{name} asks for {ir3}, but {ir1} x {ir2} makes {expected} only")


def _with_shape(name: str, instruction: Instruction, operands: Operands) -> Instruction:
    mode, weighted = instruction.connection, instruction.has_weight
    if mode not in CONNECTIONS:
        raise ValueError(f"{name} must have a connection of {[*CONNECTIONS]}, got {mode!r}")
    connection = CONNECTIONS[mode]
    u, v, w = (mul for mul, _ in terms_of(instruction, operands))
    if not connection.fits(u, v, w, weighted):
        got = f"{u} x {v} -> {w} with{'' if weighted else 'out'} weights"
        raise ValueError(f"{name}: {mode} needs {connection.rule}, got multiplicities {got}")
    shape = sizes_of(connection.weights, u, v, w)
    if instruction.path_shape not in ((), shape):
        raise ValueError(
            f"{name} must have the path_shape {shape} or none, got {instruction.path_shape}"
        )
    return replace(instruction, path_shape=shape)


def terms_of(instruction: Instruction, operands: Operands) -> list[MulIr]:
    """Return the multiplicities and irreps that an instruction joins."""
    positions = (instruction.i_in1, instruction.i_in2, instruction.i_out)
    return [irreps.terms[n] for irreps, n in zip(operands, positions, strict=True)]


JoinedTerms = tuple[int, int, int]  # positions of the terms of both inputs and of the output


def all_paths(
    irreps_in1: Irreps,
    irreps_in2: Irreps,
    # an output channel per pair of channels, or per first channel
    connection: Literal["uvuv", "uvu"],
    keep: frozenset[Irrep] | None,  # irreps (l, p) to compute; None keeps all
) -> tuple[Irreps, list[JoinedTerms]]:
    """Return the output irreps of all paths, one term each, and the joined term positions."""
    made = [
        (n1, n2, (mul1 * mul2 if connection == "uvuv" else mul1, ir))
        for n1, (mul1, ir1) in enumerate(irreps_in1.terms)
        for n2, (mul2, ir2) in enumerate(irreps_in2.terms)
        for ir in ir1 * ir2
        if keep is None or ir in keep
    ]
    warn_of_empty((irreps_in1, irreps_in2), keep or (), len(made))
    # Output terms are sorted by degree, odd before even.
    irreps_out, p, _ = Irreps([term for *_, term in made], irreps_in1.layout).sort()
    return irreps_out, [(n1, n2, p[n]) for n, (n1, n2, _) in enumerate(made)]

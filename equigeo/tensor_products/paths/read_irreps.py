"""Arguments that name irreps, read with errors that name the argument."""

from __future__ import annotations

from typing import Any

from equigeo.nn._irreps_argument import irreps_argument
from equigeo.reps import Irreps

Irrep = tuple[int, int]  # degree and parity


def read_operands(*given: Any) -> tuple[Irreps, Irreps, Irreps]:
    """Convert the arguments of both factors and the result to irreps in layout ``mul_ir``."""
    names = ("irreps_in1", "irreps_in2", "irreps_out")
    pairs = zip(names, given, strict=True)
    first, second, out = (irreps_argument(name, value, "mul_ir") for name, value in pairs)
    return first, second, out


def read_filter(value: Any, name: str = "filter_ir_out") -> frozenset[Irrep] | None:
    """Read irreps to keep: text, Irreps, or an iterable of text or (l, p); None keeps all."""
    if value is None:
        return None
    if isinstance(value, str):
        value = [value]
    try:
        return frozenset(ir for item in value for ir in _irreps_of(item))
    except (TypeError, ValueError, IndexError) as error:
        expected = 'irreps such as ["0e", "1o"]'
        raise ValueError(f"{name} must hold {expected}, got {value!r}") from error


def _irreps_of(item: Any) -> list[Irrep]:
    if isinstance(item, str):
        return [ir for _, ir in Irreps(item).terms]
    term = item if isinstance(item[1], tuple) else (1, item)
    return [ir for _, ir in Irreps([term]).terms]


def irrep_name(ir: Irrep) -> str:
    """Format an irrep as e3nn does."""
    return f"{ir[0]}{'e' if ir[1] > 0 else 'o'}"


def product_of_irreps(ir1: Irrep, ir2: Irrep) -> list[Irrep]:
    """Return the irreps in a product by ascending degree."""
    (l1, p1), (l2, p2) = ir1, ir2
    return [(l, p1 * p2) for l in range(abs(l1 - l2), l1 + l2 + 1)]


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

"""Every path between two features, into terms of its own."""

from __future__ import annotations

from typing import Literal

from equigeo.reps import Irreps
from equigeo.tensor_products.paths.read_irreps import Irrep, product_of_irreps

JoinedTerms = tuple[int, int, int]  # positions of the terms of both inputs and of the output


def all_paths(
    irreps_in1: Irreps,
    irreps_in2: Irreps,
    connection: Literal["uvuv", "uvu"],
    keep: frozenset[Irrep] | None,
) -> tuple[Irreps, list[JoinedTerms]]:
    """Return sorted terms, one per path, and the paths, by terms of the inputs and then degrees."""
    made = [
        (n1, n2, (mul1 * mul2 if connection == "uvuv" else mul1, ir))
        for n1, (mul1, ir1) in enumerate(irreps_in1.terms)
        for n2, (mul2, ir2) in enumerate(irreps_in2.terms)
        for ir in product_of_irreps(ir1, ir2)
        if keep is None or ir in keep
    ]
    irreps_out, order = Irreps([term for *_, term in made], irreps_in1.layout).sort()
    position = {old: new for new, old in enumerate(order)}
    return irreps_out, [(n1, n2, position[n]) for n, (n1, n2, _) in enumerate(made)]

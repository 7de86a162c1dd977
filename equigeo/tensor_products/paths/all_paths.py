"""Every path between two features, with one output term per path."""

from __future__ import annotations

from typing import Literal

from equigeo.nn.reached import warn_of_empty
from equigeo.reps import Irreps
from equigeo.tensor_products.paths.read_irreps import Irrep, product_of_irreps

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
        for ir in product_of_irreps(ir1, ir2)
        if keep is None or ir in keep
    ]
    warn_of_empty((irreps_in1, irreps_in2), keep or (), len(made))
    # Output terms are sorted by degree, odd before even.
    irreps_out, order = Irreps([term for *_, term in made], irreps_in1.layout).sort()
    position = {old: new for new, old in enumerate(order)}
    return irreps_out, [(n1, n2, position[n]) for n, (n1, n2, _) in enumerate(made)]

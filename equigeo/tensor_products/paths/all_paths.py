"""Every path between two features, into terms of its own."""

from __future__ import annotations

from typing import Literal

from equigeo.nn.reached import warn_of_empty
from equigeo.reps import Irreps
from equigeo.tensor_products.paths.read_irreps import Irrep, product_of_irreps

JoinedTerms = tuple[int, int, int]  # positions of the terms of both inputs and of the output


def all_paths(
    irreps_in1: Irreps,
    irreps_in2: Irreps,
    connection: Literal["uvuv", "uvu"],
    keep: frozenset[Irrep] | None,
) -> tuple[Irreps, list[JoinedTerms]]:
    """List the paths between all terms of two inputs, and the output that they make.

    Parameters
    ----------
    irreps_in1, irreps_in2 : Irreps
        Of the inputs, in one layout.
    connection : {"uvuv", "uvu"}
        Whether an output has a channel for each pair of channels, or for each of the first input.
    keep : frozenset of (int, int) or None
        Irreps to make; None for all.

    Returns
    -------
    irreps_out : Irreps
        One term per path, sorted by degree, odd before even.
    paths : list of (int, int, int)
        Positions of the terms that each joins, by terms of the inputs and then degrees.
    """
    made = [
        (n1, n2, (mul1 * mul2 if connection == "uvuv" else mul1, ir))
        for n1, (mul1, ir1) in enumerate(irreps_in1.terms)
        for n2, (mul2, ir2) in enumerate(irreps_in2.terms)
        for ir in product_of_irreps(ir1, ir2)
        if keep is None or ir in keep
    ]
    warn_of_empty((irreps_in1, irreps_in2), keep or (), len(made))
    irreps_out, order = Irreps([term for *_, term in made], irreps_in1.layout).sort()
    position = {old: new for new, old in enumerate(order)}
    return irreps_out, [(n1, n2, position[n]) for n, (n1, n2, _) in enumerate(made)]

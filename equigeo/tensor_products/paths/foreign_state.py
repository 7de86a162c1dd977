"""Couplings in the state of e3nn products, which determine signs of weights."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from equigeo.reps.wigner_3j import wigner_3j_table
from equigeo.tensor_products.paths.instruction import Instruction
from equigeo.tensor_products.paths.resolve import Operands, terms_of

COUPLING = re.compile(r"_w3j_(\d+)_(\d+)_(\d+)$")


def without_tables(state: Mapping[str, Any], prefix: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split a state into the entries of this library and the tables of e3nn."""
    foreign = {key for key in state if key.startswith(f"{prefix}_compiled_main_")}
    own = {key: value for key, value in state.items() if key not in foreign}
    return own, {key: state[key] for key in foreign}


def differing_couplings(
    tables: Mapping[str, Tensor], instructions: Sequence[Instruction], operands: Operands
) -> list[str]:
    """Return a message per saved coupling with the opposite sign."""
    # e3nn 0.4 has the opposite sign for some odd sums of degrees, such as (1, 2, 2), which changes
    # the meaning of its weights.
    signs = {
        tuple(l for _, (l, _) in terms_of(path, operands)): 1.0 if path.path_weight >= 0 else -1.0
        for path in instructions
    }
    problems = []
    for key, table in tables.items():
        match = COUPLING.search(key)
        if match is None or table.is_meta:
            continue
        l1, l2, l3 = (int(l) for l in match.groups())
        # Unit-norm couplings are unique up to sign, so that the sign of the overlap tells them
        # apart.
        own = signs.get((l1, l2, l3), 1.0) * wigner_3j_table(l1, l2, l3).flatten()
        if float(table.detach().cpu().double().flatten() @ own) < 0:
            problems.append(
                f"{key} has the other sign, as in e3nn 0.4: convert the module by "
                "equigeo.interop.from_e3nn, which turns its paths"
            )
    return problems

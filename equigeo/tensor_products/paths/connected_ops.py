"""The choice of ops for products whose channels meet in pairs."""

from __future__ import annotations

from collections.abc import Sequence

from equigeo.ops import LARGEST_DEGREE
from equigeo.tensor_products.paths.connected_paths import (
    ConnectedPaths,
    CopywisePaths,
    FullyConnectedPaths,
)
from equigeo.tensor_products.paths.instruction import Instruction
from equigeo.tensor_products.paths.mixed_paths import MixedPaths
from equigeo.tensor_products.paths.resolve import Operands, terms_of


def connected_paths(
    instructions: Sequence[Instruction], operands: Operands, *, shared_weights: bool
) -> ConnectedPaths | None:
    """Gather instructions for ops; None where there are other connections or a mixture.

    Parameters
    ----------
    instructions : sequence of Instruction
        Resolved, with their factors.
    operands : (Irreps, Irreps, Irreps)
        What they join.
    shared_weights : bool
        Whether all rows have the same weights.

    Returns
    -------
    ConnectedPaths or None
        What evaluates them.
    """
    paths = [path for path in instructions if 0 not in path.path_shape]
    modes = {path.connection for path in paths}
    weighted = {path.has_weight for path in paths}
    if not paths:
        return None
    if modes <= {"uvuv", "uuu"} and len(weighted) == 1:
        return CopywisePaths(instructions, operands)
    if modes <= {"uvw", "uuw"} and (shared_weights or weighted == {False}):
        return MixedPaths(instructions, operands)
    degrees = [l for path in paths for _, (l, _) in terms_of(path, operands)[::2]]
    if modes == {"uvw"} and max(degrees) <= LARGEST_DEGREE:
        return FullyConnectedPaths(instructions, operands)
    return None

"""What ops over the edges of a graph ask of its lists."""

from __future__ import annotations

from torch import Tensor

from equigeo.ops.runtime.checks import check_index


def check_edge_lists(
    sources: int, edges: int,
    source: Tensor, ptr: Tensor, target: Tensor, back_order: Tensor, back_ptr: Tensor,
) -> None:  # fmt: skip
    """Refuse lists of another dtype or length than features ask for; values are not read.

    Parameters
    ----------
    sources, edges : int
        Rows of the features of sources, and of logits.
    source, target, back_order : Tensor, (edges,), int64
        Ends of the edges sorted by target, and their order by source.
    ptr : Tensor, (targets + 1,), int64
        Offsets of targets.
    back_ptr : Tensor, (sources + 1,), int64
        Offsets of sources in ``back_order``.

    Raises
    ------
    TypeError
        If a list is not int64.
    ValueError
        If its length is another.
    """
    counted = edges, "the rows of logits"
    check_index("source", source, length=counted)
    check_index("target", target, length=counted)
    check_index("back_order", back_order, length=counted)
    check_index("ptr", ptr, at_least=1)
    check_index("back_ptr", back_ptr, length=(sources + 1, "the rows of sources, plus one"))

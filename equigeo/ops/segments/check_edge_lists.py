"""What ops over the edges of a graph ask of its lists."""

from __future__ import annotations

from torch import Tensor

from equigeo.ops.runtime.checks import check_index


def check_edge_lists(
    sources: int, edges: int,
    source: Tensor, ptr: Tensor, target: Tensor, back_order: Tensor, back_ptr: Tensor,
) -> None:  # fmt: skip
    """Validate dtypes and lengths of edge lists against features, without reading values."""
    # source, target, back_order: (edges,); ptr: (targets + 1,); back_ptr: (sources + 1,)
    counted = edges, "the rows of logits"
    check_index("source", source, length=counted)
    check_index("target", target, length=counted)
    check_index("back_order", back_order, length=counted)
    check_index("ptr", ptr, at_least=1)
    check_index("back_ptr", back_ptr, length=(sources + 1, "the rows of sources, plus one"))

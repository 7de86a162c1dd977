"""Cells of the mode matrix that do not pass, each with its reason.

A cell that is listed must fail with an error, and not with wrong numbers.
"""

from fnmatch import fnmatchcase

_DESCENT = "how a descent goes depends on values, and it differentiates as it goes"
_FRAMES = "how many frames a cloud has depends on its values"
_MERGES = "which edges are merged depends on values"
_ONE_GRAPH = "meshes of a batch are one graph, whose faces are chosen by a mask"
_PROGRAMS = ("compiled", "compiled_double_backward", "exported", "inductor", "aot_inductor")
_NO_KERNEL = (
    "no kernel is written for more than three dimensions: import equigeo beside the package"
)

_BATCH_NORM = "batch norm of PyTorch takes no parameters in bfloat16 beside features in float32"
_BY_FUNC = "ops have no gradient by torch.func inside of a program: use torch.autograd.grad there"

UNSUPPORTED: list[tuple[str, tuple[str, ...], str]] = [
    ("mesh.EdgePool", ("meta", *_PROGRAMS), _MERGES),
    ("mesh.PrimalDualClassifier", ("meta", *_PROGRAMS), _MERGES),
    ("mesh.PrimalDualClassifier", ("vmap",), _ONE_GRAPH),
    ("mesh.PrimalDualSegmenter", ("meta", *_PROGRAMS), _MERGES),
    ("mesh.PrimalDualSegmenter", ("vmap",), _ONE_GRAPH),
    ("mesh.PrimalDualClassifier", ("cast_under_autocast",), _BATCH_NORM),
    ("mesh.PrimalDualSegmenter", ("cast_under_autocast",), _BATCH_NORM),
    ("mesh.ResidualBlock", ("cast_under_autocast",), _BATCH_NORM),
    ("mds.Canonicalized", ("vmap", "meta", *_PROGRAMS), _DESCENT),
    ("mds.frames", ("vmap", "meta", *_PROGRAMS), _FRAMES),
    ("tensor_products.ChannelwiseConv of an EdgeIndex", ("compiled_grad",), _BY_FUNC),
    ("tensor_products.SymmetricContraction", ("compiled_grad",), _BY_FUNC),
    ("mesh.PrimalDualConv", ("compiled_grad",), _BY_FUNC),
    ("mds.embed", ("compiled_grad",), _BY_FUNC),
    ("ops.segment_attention", ("compiled_grad",), _BY_FUNC),
    ("ops.principal_axes_nd of *", ("aot_inductor",), _NO_KERNEL),
]
"""Rows, with * for any characters; columns; why."""


def reason(row: str, column: str) -> str | None:
    """Say why a cell does not pass; None where it does."""
    found = [
        why
        for pattern, columns, why in UNSUPPORTED
        if column in columns and fnmatchcase(row, pattern)
    ]
    return found[0] if found else None

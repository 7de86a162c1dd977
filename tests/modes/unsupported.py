"""Cells of the mode matrix that do not pass, each with its reason."""

from fnmatch import fnmatchcase

_DESCENT = "how a descent goes depends on values, and it differentiates as it goes"
_FRAMES = "how many frames a cloud has depends on its values"
_MERGES = "which edges are merged depends on values"
_ONE_GRAPH = "meshes of a batch are one graph, whose faces are chosen by a mask"
_PROGRAMS = (
    "compiled",
    "compiled_double_backward",
    "compiled_grad",
    "exported",
    "inductor",
    "aot_inductor",
)
_NO_KERNEL = (
    "no kernel is written for more than three dimensions: import equigeo beside the package"
)
_BY_FUNC = "ops have no gradient by torch.func inside of a program: use torch.autograd.grad there"

_OF_OPS = "; ".join(
    [
        "mds.AttentionModel",
        "mds.Invariant",
        "mds.InvariantPointNet",
        "mds.embed",
        "mesh.PrimalDualConv",
        "mesh.PrimalDualFieldConv",
        "mesh.ResidualBlock",
        "nn.Linear",
        "ops.segment_attention",
        "potentials.MessagePassingPotential",
        "tensor_products.*Conv",
        "tensor_products.ChannelwiseConv of an EdgeIndex",
        "tensor_products.ChannelwiseTensorProduct in mul_ir",
        "tensor_products.[CGV]*TensorProduct",
        "tensor_products.ElementwiseTensorProduct",
        "tensor_products.Full*TensorProduct",
        "tensor_products.S2SwiGLU",
        "tensor_products.SignalTensorProduct",
        "tensor_products.SphericalHarmonics",
        "tensor_products.SymmetricContraction",
    ]
)

UNSUPPORTED: list[tuple[str, tuple[str, ...], str]] = [
    ("mesh.EdgePool", ("meta", *_PROGRAMS), _MERGES),
    ("mesh.PrimalDualClassifier", ("meta", *_PROGRAMS), _MERGES),
    ("mesh.PrimalDualClassifier", ("vmap",), _ONE_GRAPH),
    ("mesh.PrimalDualSegmenter", ("meta", *_PROGRAMS), _MERGES),
    ("mesh.PrimalDualSegmenter", ("vmap",), _ONE_GRAPH),
    ("mds.Canonicalized", ("vmap", "meta", *_PROGRAMS), _DESCENT),
    ("mds.frames", ("vmap", "meta", *_PROGRAMS), _FRAMES),
    (_OF_OPS, ("compiled_grad",), _BY_FUNC),
    ("ops.principal_axes_nd of *", ("aot_inductor",), _NO_KERNEL),
]
"""Rows, with * for any characters and ; between them; columns; why."""


def reason(row: str, column: str) -> str | None:
    """Say why a cell does not pass; None where it does."""
    found = [
        why
        for patterns, columns, why in UNSUPPORTED
        if column in columns and any(fnmatchcase(row, each) for each in patterns.split("; "))
    ]
    return found[0] if found else None

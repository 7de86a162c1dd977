"""Cells of the mode matrix that do not pass, each with its reason."""

from fnmatch import fnmatchcase

_DESCENT = "the descent has data-dependent control flow and calls autograd"
_FRAMES = "the number of frames of a cloud depends on its values"
_MERGES = "the merged edges depend on values"
_ONE_GRAPH = "a batch of meshes is one graph, whose faces are selected by a mask"
_PROGRAMS = (
    "compiled",
    "compiled_double_backward",
    "compiled_grad",
    "exported",
    "inductor",
    "aot_inductor",
)
_NO_KERNEL = "no kernel for more than three dimensions: import equigeo.ops beside the package"
_BY_FUNC = "inside `torch.compile`, custom ops have no `torch.func.grad`: use `torch.autograd.grad`"

_OF_OPS = "; ".join(
    [
        "mds.AttentionModel",
        "mds.Invariant",
        "mds.InvariantPointNet",
        "mds.embed",
        "mesh.MaskedAttention",
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
    """Return why a cell is unsupported, or None if it is supported."""
    found = [
        why
        for patterns, columns, why in UNSUPPORTED
        if column in columns and any(fnmatchcase(row, each) for each in patterns.split("; "))
    ]
    return found[0] if found else None

"""Cells of the mode matrix that do not pass, each with its reason.

A cell that is listed must fail with an error, and not with wrong numbers.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

_STORED = "computed and stored in float32 or float64: convert first; under autocast inputs are cast"
_GRADIENT = "called by gradients alone, which have the dtype of their op"
_GRID_SAMPLER = "PyTorch has no forward mode for its grid_sampler_2d, and says so"
_FFT = "PyTorch has no Fourier transform of bfloat16 on the CPU, and says so"
_FRAMES = "how many frames a cloud has depends on its values"
_MERGES = "which edges are merged depends on values"
_ONE_GRAPH = "meshes of a batch are one graph, whose faces are chosen by a mask"
_EMBEDDED = "embeddings have at least float32: convert the points, or use autocast"
_ATTENTION = "PyTorch's attention has one derivative on the CPU, and says so"
_TWICE = ("double_backward", "zero_cotangent", "forward_mode", "forward_over_reverse", "jacrev",
          "hessian", "compiled_double_backward")  # fmt: skip
_PROGRAMS = ("compiled", "compiled_double_backward", "exported")
_PIXELS = ("zero_cotangent", "forward_mode", "forward_over_reverse", "jacrev", "hessian")

UNSUPPORTED: list[tuple[str, tuple[str, ...], str]] = [
    ("affine.MomentFrame", _PIXELS, _GRID_SAMPLER),
    ("affine.AffineResNet", _PIXELS, _GRID_SAMPLER),
    ("affine.MomentFrame", ("bfloat16",), _STORED),
    ("affine.AffineResNet", ("bfloat16",), _STORED),
    ("affine.*Point*", ("bfloat16",), _STORED),
    ("tensor_products.GauntTensorProduct", ("bfloat16",), _STORED),
    ("tensor_products.GauntTensorProduct by Fourier series", ("bfloat16",), _FFT),
    ("tensor_products.CurlTensorProduct", ("bfloat16",), _STORED),
    ("tensor_products.VectorSignalTensorProduct", ("bfloat16",), _STORED),
    ("tensor_products.SignalTensorProduct", ("bfloat16",), _STORED),
    ("mesh.*", ("bfloat16",), _STORED),
    ("mesh.EdgePool", ("meta", *_PROGRAMS), _MERGES),
    ("mesh.PrimalDualClassifier", ("meta", *_PROGRAMS), _MERGES),
    ("mesh.PrimalDualClassifier", ("vmap",), _ONE_GRAPH),
    ("mds.frames", ("vmap", "meta", *_PROGRAMS), _FRAMES),
    ("mds.Invariant*", ("bfloat16",), _EMBEDDED),
    ("mds.AttentionModel", _TWICE, _ATTENTION),
    ("ops.gather_sum", ("bfloat16",), _STORED),
    ("ops.segment_attention", ("bfloat16",), _STORED),
    ("ops.grid_product*", ("bfloat16",), _STORED),
    ("ops.radial_conv*", ("bfloat16",), _STORED),
    ("ops.principal_axes of *", ("bfloat16",), _STORED),
    ("ops.principal_axes_nd of *", ("bfloat16",), _STORED),
    ("ops.axis_flags of *", ("bfloat16",), _STORED),
    ("ops.symmetric_eigen of *", ("bfloat16",), _STORED),
    ("ops.symmetric_contraction, *", ("bfloat16",), _STORED),
    ("ops.spherical_harmonics of *", ("bfloat16",), _STORED),
    ("ops.copywise_product, *", ("bfloat16",), _STORED),
    ("ops.fully_connected_product, *", ("bfloat16",), _STORED),
    ("ops.*_backward*", ("autocast", "bfloat16"), _GRADIENT),
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

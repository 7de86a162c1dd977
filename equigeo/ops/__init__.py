"""Compiled operations, each with a reference implementation where no kernel is loaded.

Functions here validate their arguments and call an op of PyTorch's dispatcher, which uses a
compiled kernel where a loaded library has one. Features are float32 or float64, or bfloat16 or
float16: these are computed in float32, and results and gradients are rounded once. Wrong dtypes
raise ``TypeError``, shapes and devices that do not fit together ``ValueError``. Values of indices
and offsets are checked by the kernels of the CPU alone, which raise ``RuntimeError``: elsewhere
reading them would wait for the device.
"""

from equigeo._core.deprecation import private_names, renamed
from equigeo.ops.edges.gather_sum import gather_sum
from equigeo.ops.edges.segment_attention import attention_conv, segment_attention
from equigeo.ops.edges.so2_conv import so2_conv
from equigeo.ops.edges.so2_table import SO2Table
from equigeo.ops.first_use import cuda_status, run_self_test, watch_devices
from equigeo.ops.geometry.axis_flags import axis_flags
from equigeo.ops.geometry.axis_rules import ScaleRule, SignRule
from equigeo.ops.geometry.grid_product import grid_product
from equigeo.ops.geometry.principal_axes import principal_axes
from equigeo.ops.geometry.relu_batch_norm import relu_batch_norm
from equigeo.ops.geometry.spherical_harmonics import spherical_harmonics
from equigeo.ops.geometry.symmetric_eigen import symmetric_eigen
from equigeo.ops.path_table import Path, PathTable, Segment
from equigeo.ops.polynomial_table import Polynomial, PolynomialTable
from equigeo.ops.products.block_linear import block_linear
from equigeo.ops.products.channelwise_conv import channelwise_conv, radial_conv
from equigeo.ops.products.connected import (
    channelwise_product,
    copywise_product,
    fully_connected_product,
)
from equigeo.ops.products.multilinear import LARGEST_DEGREE
from equigeo.ops.products.spline_conv import spline_conv
from equigeo.ops.products.symmetric_contraction import symmetric_contraction
from equigeo.ops.run_time_kernels import compile_kernels
from equigeo.ops.runtime.library import (
    kept_result_memory,
    kernels_info,
    limit_result_memory,
    load_kernels,
    runs_compiled,
)
from equigeo.ops.self_test import check_ops

load_kernels(__path__)
watch_devices()

__all__ = [
    "LARGEST_DEGREE",
    "Path",
    "PathTable",
    "Polynomial",
    "PolynomialTable",
    "SO2Table",
    "ScaleRule",
    "Segment",
    "SignRule",
    "attention_conv",
    "axis_flags",
    "block_linear",
    "channelwise_conv",
    "channelwise_product",
    "check_ops",
    "compile_kernels",
    "copywise_product",
    "cuda_status",
    "fully_connected_product",
    "gather_sum",
    "grid_product",
    "kept_result_memory",
    "kernels_info",
    "limit_result_memory",
    "principal_axes",
    "radial_conv",
    "relu_batch_norm",
    "run_self_test",
    "runs_compiled",
    "segment_attention",
    "so2_conv",
    "spherical_harmonics",
    "spline_conv",
    "symmetric_contraction",
    "symmetric_eigen",
]
__dir__ = __all__.copy

_PRIVATE = {
    "OpCheck": ("equigeo.ops.self_test", "check_ops"),
    "rotate_edges": ("equigeo.ops.edges.rotate_edges", "so2_conv"),
    "rotate_edges_back": ("equigeo.ops.edges.rotate_edges", "so2_conv"),
}
__getattr__ = renamed(__name__, private_names("0.3", _PRIVATE))

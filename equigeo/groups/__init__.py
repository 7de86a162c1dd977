"""Matrix groups as frozen values; elements are batched tensors that act on column vectors.

Elements are ``(..., n, n)`` for linear groups and homogeneous ``(..., n + 1, n + 1)`` for affine
ones.
"""

from functools import partial

from equigeo._core.deprecation import Renamed, private_names, renamed
from equigeo.groups.affine import Affine
from equigeo.groups.algebra import matrix_exp
from equigeo.groups.group import Group
from equigeo.groups.linear import (
    GL,
    SL,
    SO,
    GLPlus,
    LinearGroup,
    O,
    Scaling,
    Similarity,
    rotation_exp,
    rotation_log,
)
from equigeo.groups.polar import polar, spd_sqrt
from equigeo.groups.samples import GroupSamples, multiply_samples, pair_samples
from equigeo.groups.sampling import (
    equidistant_rotations,
    finite_rotations,
    grid_stretches,
    haar_rotations,
    point_group,
    sample_stretches,
)

__all__ = [
    "GL",
    "SL",
    "SO",
    "Affine",
    "GLPlus",
    "Group",
    "GroupSamples",
    "LinearGroup",
    "O",
    "Scaling",
    "Similarity",
    "equidistant_rotations",
    "finite_rotations",
    "grid_stretches",
    "haar_rotations",
    "matrix_exp",
    "multiply_samples",
    "pair_samples",
    "point_group",
    "polar",
    "rotation_exp",
    "rotation_log",
    "sample_stretches",
    "spd_sqrt",
]
__dir__ = __all__.copy


_SAMPLES = "sample_stretches(group, k, std, radius=..., quasi=...)"
_FORM = "equigeo.groups.algebra", "methods of LinearGroup"
_PRIVATE = {
    "CompactFactor": _FORM,
    "PolarForm": _FORM,
    "Stretches": _FORM,
    "spd_exp": ("equigeo.groups.polar", "LinearGroup.from_coordinates"),
    "spd_log": ("equigeo.groups.polar", "LinearGroup.coordinates"),
}
_OLD = {
    "ChartedGroup": Renamed("LinearGroup or Affine", "0.3", Group),
    "lognormal_stretches": Renamed("sample_stretches", "0.3"),
    "ball_stretches": Renamed(
        _SAMPLES,
        "0.3",
        lambda group, k, radius, **more: sample_stretches(group, k, radius=radius, **more),
    ),
    "sobol_stretches": Renamed(_SAMPLES, "0.3", partial(sample_stretches, quasi=True)),
}
__getattr__ = renamed(__name__, _OLD | private_names("0.3", _PRIVATE))

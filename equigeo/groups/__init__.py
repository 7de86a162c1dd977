"""Matrix groups as frozen values; elements are batched tensors that act on column vectors.

Elements are ``(..., n, n)`` for linear groups and homogeneous ``(..., n + 1, n + 1)`` for affine
ones.
"""

from equigeo.groups.affine import Affine
from equigeo.groups.charted_group import ChartedGroup
from equigeo.groups.charts.rotation_chart import rotation_exp, rotation_log
from equigeo.groups.group import Group
from equigeo.groups.inclusions import CompactFactor, PolarForm, Stretches
from equigeo.groups.kinds import GL, SL, SO, GLPlus, O, Scaling, Similarity
from equigeo.groups.linear_group import LinearGroup
from equigeo.groups.matrices.matrix_exp import matrix_exp
from equigeo.groups.matrices.polar import polar
from equigeo.groups.matrices.spd import spd_exp, spd_log, spd_sqrt
from equigeo.groups.samples.combine_samples import multiply_samples, pair_samples
from equigeo.groups.samples.group_samples import GroupSamples
from equigeo.groups.samples.sample_rotations import (
    equidistant_rotations,
    finite_rotations,
    haar_rotations,
    point_group,
)
from equigeo.groups.samples.sample_stretches import (
    ball_stretches,
    grid_stretches,
    lognormal_stretches,
    sobol_stretches,
)

__all__ = [
    "GL",
    "SL",
    "SO",
    "Affine",
    "ChartedGroup",
    "CompactFactor",
    "GLPlus",
    "Group",
    "GroupSamples",
    "LinearGroup",
    "O",
    "PolarForm",
    "Scaling",
    "Similarity",
    "Stretches",
    "ball_stretches",
    "equidistant_rotations",
    "finite_rotations",
    "grid_stretches",
    "haar_rotations",
    "lognormal_stretches",
    "matrix_exp",
    "multiply_samples",
    "pair_samples",
    "point_group",
    "polar",
    "rotation_exp",
    "rotation_log",
    "sobol_stretches",
    "spd_exp",
    "spd_log",
    "spd_sqrt",
]


def __dir__() -> list[str]:
    return __all__

"""Validation of group samples: group, device and window."""

from __future__ import annotations

import math
import warnings

from torch import Tensor

from equigeo.graphs.inputs import kind_of
from equigeo.groups import GroupSamples, LinearGroup
from equigeo.ops.runtime.torch_internals import values_readable

# Tolerated shortfall of a window: an exponential and a logarithm in float32 leave about ten units
# of rounding of 1e-7.
_SLACK = 1e-6


class WindowWarning(UserWarning):
    """Input samples do not cover the window that outputs and kernel require.

    An output at log-stretch ``r_out`` with a kernel of reach ``r_k`` reads inputs up to
    ``r_out + r_k``. If the inputs end earlier, the integral over the group is truncated and the
    layer is equivariant only up to the missing part, for any number of samples. Enlarge the window
    of the inputs, or reduce that of the outputs or the reach. A mean over a non-compact group would
    need all of it, and is invariant only for features that vanish at the rim of the window.

    Parameters
    ----------
    inputs, outputs, reach : float
        Largest log-stretch of the samples, and reach of the kernel.
    message : str
        By default that of a convolution.

    Attributes
    ----------
    missing : float
        Log-stretch by which the inputs fall short.

    Examples
    --------
    >>> WindowWarning(inputs=0.5, outputs=0.25, reach=0.5).missing
    0.25
    """

    def __init__(
        self, inputs: float, outputs: float = math.inf, reach: float = 0.0, message: str = ""
    ) -> None:
        self.inputs, self.outputs, self.reach = inputs, outputs, reach
        self.missing = outputs + reach - inputs
        super().__init__(
            message
            or f"samples reach log-stretch {inputs:.3g}, but outputs up to {outputs:.3g} with a "
            f"kernel of reach {reach:.3g} need {outputs + reach:.3g}: equivariance to stretches "
            "is only approximate; enlarge the input window, or shrink that of the outputs or the "
            "kernel"
        )


def check_samples(
    samples: object,
    name: str = "samples",  # argument name in messages
) -> None:
    """Raise ``TypeError`` if a value is not ``GroupSamples``."""
    if not isinstance(samples, GroupSamples):
        raise TypeError(f"{name} must be GroupSamples, got {kind_of(samples)}")


def check_group(samples: GroupSamples, group: LinearGroup, weight: Tensor | None = None) -> None:
    """Raise if samples are not of the group of a layer, or not on the device of its weight."""
    check_samples(samples)
    if samples.group != group:
        raise ValueError(f"samples must be of {group}, got {samples.group}")
    if weight is not None and samples.h.device != weight.device:
        raise ValueError(
            f"samples must be on {weight.device} as the layer is, got {samples.h.device}: "
            "use samples.to(device=...)"
        )


def check_window(
    inputs: GroupSamples,
    outputs: GroupSamples,
    reach: float,  # log-stretch at which the kernel vanishes, maybe infinite
) -> WindowWarning | None:
    """Warn if the inputs of a group convolution do not cover outputs plus kernel; return it."""
    if inputs.group.symmetric_dimension == 0 or reach == 0:
        return None
    if not values_readable(inputs.h):
        return None
    available, wanted = inputs.radius, outputs.radius
    if available + _SLACK >= wanted + reach:
        return None
    warning = WindowWarning(available, wanted, reach)
    warnings.warn(warning, stacklevel=3)
    return warning


def check_pooling_window(samples: GroupSamples) -> WindowWarning | None:
    """Warn if a mean over samples approximates one over a non-compact group; return the warning."""
    if samples.group.symmetric_dimension == 0 or not values_readable(samples.h):
        return None
    message = (
        f"a mean over samples up to log-stretch {samples.radius:.3g} of a non-compact group is "
        "invariant only for features that vanish there, whatever the number of samples; take the "
        "maximum, or transform images to a frame first and sample only rotations"
    )
    warning = WindowWarning(samples.radius, message=message)
    warnings.warn(warning, stacklevel=3)
    return warning

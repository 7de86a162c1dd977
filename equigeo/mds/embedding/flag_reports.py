"""Warnings and errors for clouds without a reliable embedding."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from equigeo.mds.embedding.aligned_clouds import AlignedClouds
from equigeo.mds.embedding.cloud_rows import CloudRows
from equigeo.ops.runtime.torch_internals import values_readable

_warned: set[str] = set()


def report_flagged(aligned: AlignedClouds) -> None:
    """Warn about flagged clouds, once per process, or raise, depending on the options."""
    fallback = aligned.options.fallback
    if fallback not in ("warn", "error") or not values_readable(aligned.y):
        return
    if fallback == "warn" and "flagged" in _warned:
        return
    flagged = aligned.doubtful
    count = int(flagged.sum())
    if not count:
        return
    text = (
        f"{count} of {len(flagged)} clouds, the first at {_first(flagged, aligned.clouds)}, have "
        "symmetries that leave their axes open: see `ambiguous` and `degenerate`; "
        'fallback="frames" or "anchor" gives frames to average over'
    )
    if fallback == "error":
        raise ValueError(text)
    _warned.add("flagged")
    warnings.warn(text, UserWarning, stacklevel=4)


def check_finite(aligned: AlignedClouds) -> None:
    """Raise for clouds that are not finite, unless the options propagate NaN."""
    if aligned.broken and aligned.options.nan_policy == "raise":
        raise ValueError(
            f"the cloud at {_first(aligned.scale.isnan(), aligned.clouds)} is not finite, as are "
            f'{aligned.broken - 1} others; nan_policy="propagate" makes their embeddings NaN'
        )


def _first(which: Tensor, clouds: CloudRows) -> str:
    position = int(which.int().argmax())
    if clouds.ragged or len(clouds.batch) == 1:
        return f"batch index {position}"
    index = torch.unravel_index(torch.tensor(position), clouds.batch) if clouds.batch else ()
    return f"batch index {tuple(int(i) for i in index)}"

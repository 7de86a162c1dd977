"""Normalisation of node features."""

from __future__ import annotations

from typing import Literal

from torch import nn

NormName = Literal["batch", "group", "none"]


def node_norm(name: NormName, channels: int, groups: int | None = None) -> nn.Module:
    """Build a norm of (nodes, channels) by name; groups have eight channels by default."""
    if name == "batch":
        return nn.BatchNorm1d(channels)
    if name == "group":
        # Groups of two channels, as in the narrow layers of PD-MeshNet, leave only a sign: two
        # centred numbers of unit variance are +1 and -1.
        return nn.GroupNorm(groups or max(1, channels // 8), channels)
    if name == "none":
        return nn.Identity()
    raise ValueError(f"norm must be 'batch', 'group' or 'none', got {name!r}")

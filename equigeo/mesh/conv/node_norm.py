"""Normalisation of node features."""

from __future__ import annotations

from typing import Literal

from torch import nn

NormName = Literal["batch", "group", "none"]


def node_norm(name: NormName, channels: int, groups: int | None = None) -> nn.Module:
    """Normalise rows of ``(nodes, channels)``.

    Parameters
    ----------
    name : {"batch", "group", "none"}
        Statistics over all nodes of the batch, over groups of channels of each node, or none.
    channels : int
        Number of channels.
    groups : int, optional
        Groups of ``"group"``; by default one per eight channels. Groups of two, as PD-MeshNet has
        in its narrow layers, leave little but a sign: of two centred numbers of unit variance
        one is always +1 and the other -1.

    Returns
    -------
    torch.nn.Module
        With a learnt scale and shift per channel.

    Raises
    ------
    ValueError
        If the name is unknown.

    Equivariance
    ------------
    Acts on invariant channels; commutes with permutations of nodes.
    """
    if name == "batch":
        return nn.BatchNorm1d(channels)
    if name == "group":
        return nn.GroupNorm(groups or max(1, channels // 8), channels)
    if name == "none":
        return nn.Identity()
    raise ValueError(f"norm must be 'batch', 'group' or 'none', got {name!r}")

"""Messages by the name of their product."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from equigeo.potentials.messages.path_messages import (
    ChannelwiseMessages,
    FullMessages,
    SO2Messages,
    VectorSignalMessages,
)
from equigeo.potentials.messages.signal_messages import SignalMessages
from equigeo.potentials.messages.sum_messages import Messages
from equigeo.reps import Irreps

_MESSAGES: dict[str, Callable[..., Messages]] = {
    "channelwise": ChannelwiseMessages,
    "full": FullMessages,
    "so2": SO2Messages,
    "vector_signal": VectorSignalMessages,
    "gaunt": partial(SignalMessages, names=["gaunt"]),
    "curl": partial(SignalMessages, names=["curl"]),
    "gaunt+curl": partial(SignalMessages, names=["gaunt", "curl"]),
    "matrix": partial(SignalMessages, names=["matrix"]),
}


def make_messages(
    name: str,  # as in PotentialConfig
    irreps_in: Irreps,  # terms of one multiplicity
    lmax: int,  # of harmonics and messages
    basis: int,  # number of radial functions
    hidden: tuple[int, ...],  # widths of the radial network
) -> Messages:
    """Build messages by the name of their product."""
    if name in ("curl", "gaunt+curl") and all(l == 0 for _, (l, _) in irreps_in):
        name = "gaunt"  # any product with a scalar is a scaling, except the bracket, which is zero
    return _MESSAGES[name](irreps_in, lmax, basis, hidden)

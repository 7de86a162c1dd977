"""Messages by the name of their product."""

from __future__ import annotations

from equigeo.potentials.messages.path_messages import (
    ChannelwiseMessages,
    FullMessages,
    SO2Messages,
    VectorSignalMessages,
)
from equigeo.potentials.messages.signal_messages import SignalMessages
from equigeo.potentials.messages.sum_messages import Messages
from equigeo.reps import Irreps

_PATHS: dict[str, type[ChannelwiseMessages | FullMessages | SO2Messages | VectorSignalMessages]] = {
    "channelwise": ChannelwiseMessages,
    "full": FullMessages,
    "so2": SO2Messages,
    "vector_signal": VectorSignalMessages,
}
_SIGNALS = ("gaunt", "curl", "gaunt+curl", "matrix")


def make_messages(
    name: str,  # as in PotentialConfig
    irreps_in: Irreps,  # terms of one multiplicity
    lmax: int,  # of harmonics and messages
    basis: int,  # number of radial functions
    hidden: tuple[int, ...],  # widths of the radial network
) -> Messages:
    """Build messages by the name of their product."""
    if name in _PATHS:
        return _PATHS[name](irreps_in, lmax, basis, hidden)
    if name not in _SIGNALS:
        raise ValueError(f"product must be one of {', '.join([*_PATHS, *_SIGNALS])}, got {name!r}")
    if all(l == 0 for _, (l, _) in irreps_in):
        # Any product with a scalar is a scaling, but for the bracket, which makes nothing of it.
        name = "gaunt" if name in ("curl", "gaunt+curl") else name
    return SignalMessages(irreps_in, lmax, basis, hidden, name.split("+"))

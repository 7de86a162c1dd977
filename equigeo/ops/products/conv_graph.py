"""The graph arguments of convolutions."""

from __future__ import annotations

GRAPH = ("source", "ptr", "order", "target", "back_order", "back_ptr")
"""As :class:`equigeo.graphs.EdgeIndex` has them."""
OFFSETS = ("ptr", "back_ptr")
"""Those that say where the edges of a node begin."""
INDICES = {
    "source": "x",
    "order": "y",
    "target": "ptr",
    "back_order": "source",
}
"""What the others count."""

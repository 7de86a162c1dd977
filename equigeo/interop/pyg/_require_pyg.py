"""Import of PyTorch Geometric."""

from __future__ import annotations

from typing import Any

from equigeo.interop._require import require


def require_pyg() -> Any:
    """Import ``torch_geometric``, or say how to install it."""
    require("torch_geometric.data", "torch-geometric")
    return require("torch_geometric", "torch-geometric")

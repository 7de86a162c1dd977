"""Connected components of a graph given by its links."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components


def component_labels(
    one: NDArray[np.int64], other: NDArray[np.int64], num_nodes: int
) -> NDArray[np.int64]:
    """Number the connected components of an undirected graph.

    Parameters
    ----------
    one, other : ndarray, (links,), int64
        Ends of each link; links may repeat.
    num_nodes : int
        Number of nodes, linked or not.

    Returns
    -------
    ndarray, (nodes,), int64
        Component of each node.

    Examples
    --------
    >>> component_labels(np.array([0, 3]), np.array([2, 0]), 4)
    array([0, 1, 0, 0])
    """
    graph = coo_array((np.ones(len(one), np.int8), (one, other)), shape=(num_nodes, num_nodes))
    return connected_components(graph, directed=False)[1].astype(np.int64)

"""Exact solver for shortest tours.

Dantzig, Fulkerson and Johnson, "Solution of a large-scale traveling-salesman problem", 1954;
Huangfu and Hall, "Parallelizing the dual revised simplex method" (HiGHS), 2018.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse.csgraph import breadth_first_order, connected_components


def optimal_tour(distances: ArrayLike) -> NDArray[np.int64]:
    """Solve the symmetric travelling-salesman problem exactly for a few dozen cities."""
    table = np.asarray(distances, dtype=np.float64)
    square = table.ndim == 2 and table.shape[0] == table.shape[1]
    if not (square and np.isfinite(table).all() and np.array_equal(table, table.T)):
        raise ValueError(f"distances must be a finite symmetric matrix, got {table.shape}")
    cities = len(table)
    if cities < 4:  # all tours are the same
        return np.arange(cities)
    a, b = np.triu_indices(cities, 1)
    cost = table[a, b]
    edges = np.arange(len(cost))
    at_city = sparse.coo_array(
        (np.ones(2 * len(cost)), (np.concatenate([a, b]), np.concatenate([edges, edges]))),
        shape=(cities, len(cost)),
    )
    constraints = [LinearConstraint(at_city, 2, 2)]
    while True:
        chosen = _solve(cost, constraints)
        graph = sparse.coo_array(
            (np.ones(chosen.sum()), (a[chosen], b[chosen])), shape=(cities, cities)
        ).tocsr()
        number, part = connected_components(graph, directed=False)
        if number == 1:
            return _order(graph)
        # Subtour elimination: k cities that are a tour of their own may have k - 1 edges inside.
        inside = (part[a] == np.arange(number)[:, None]) & (part[b] == np.arange(number)[:, None])
        most = np.bincount(part) - 1
        constraints.append(LinearConstraint(inside.astype(np.float64), -np.inf, most))


def _solve(cost: NDArray[np.float64], constraints: list[LinearConstraint]) -> NDArray[np.bool_]:
    result = milp(
        cost,
        constraints=constraints,
        integrality=np.ones(len(cost)),
        bounds=Bounds(0, 1),
        options={"mip_rel_gap": 0.0},
    )
    if not result.success:
        raise RuntimeError(f"the solver gave up: {result.message}")
    return np.asarray(result.x > 0.5)


def _order(cycle: sparse.csr_array) -> NDArray[np.int64]:
    """Return the cities of a cycle in order."""
    cut = cycle + cycle.T
    start, end = 0, int(cut[[0]].indices.max())
    cut[start, end] = cut[end, start] = 0
    cut.eliminate_zeros()
    order, _ = breadth_first_order(cut, start, directed=False)
    return order.astype(np.int64)

"""Tours of a model, and their lengths."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from equigeo.graphs.inputs import TensorLike, as_indices, as_tensor


@dataclass(frozen=True, eq=False, repr=False)
class Tours:
    """Closed tours through the cities of every instance.

    Parameters
    ----------
    order : Tensor, (B, tours, cities), int64
        Cities in the order of their visits.
    length : Tensor, (B, tours), floating
        Euclidean lengths, in the units of the instance.
    log_prob : Tensor, (B, tours), floating
        Logarithm of the probability of the tour, given its first city.
    flagged : Tensor, (B,), bool
        Instances with a symmetric embedding, not invariant up to rounding; False without embedding.

    Examples
    --------
    >>> import torch
    >>> order = torch.tensor([[[0, 1, 2, 3], [0, 2, 1, 3]]])
    >>> nothing = torch.zeros(1, 2)
    >>> found = Tours(order, torch.tensor([[4.0, 4.8]]), nothing, torch.tensor([False]))
    >>> found.best().order.tolist(), found.edges()[0, 0].tolist()
    ([[[0, 1, 2, 3]]], [1, 3, 6, 11])
    """

    order: Tensor
    length: Tensor
    log_prob: Tensor
    flagged: Tensor

    def __repr__(self) -> str:
        """Return shapes and the mean length."""
        instances, tours, cities = self.order.shape
        mean = f", mean length={float(self.length.mean()):.4g}" if self.length.numel() else ""
        return f"Tours(instances={instances}, tours={tours}, cities={cities}{mean})"

    def best(self) -> Tours:
        """Return the shortest tour of every instance, the first of equals."""
        at = self.length.argmin(1, keepdim=True)
        order = self.order.gather(1, at[:, :, None].expand(-1, -1, self.order.shape[-1]))
        return Tours(order, self.length.gather(1, at), self.log_prob.gather(1, at), self.flagged)

    def edges(self) -> Tensor:
        """Return sorted edge sets, (B, tours, cities), to compare tours.

        They do not depend on start and direction. An edge between cities a < b is the number a *
        cities + b.
        """
        other, cities = self.order.roll(-1, -1), self.order.shape[-1]
        low, high = self.order.minimum(other), self.order.maximum(other)
        return (low * cities + high).sort(-1).values


def tour_lengths(points: TensorLike, tours: TensorLike) -> Tensor:
    """Return the Euclidean lengths (B, tours) of closed tours (B, tours, cities), int64.

    ``points`` are the positions of the cities, (B, cities, dim).

    Examples
    --------
    >>> import torch
    >>> square = torch.tensor([[[0.0, 0], [1, 0], [1, 1], [0, 1]]])
    >>> tour_lengths(square, torch.tensor([[[0, 1, 2, 3]]]))
    tensor([[4.]])
    """
    place, order = as_tensor(points, "points"), as_indices(tours, "tours")
    if place.ndim != 3 or order.ndim != 3 or len(place) != len(order):
        raise ValueError(
            "points must be (B, cities, dim) and tours (B, tours, cities), "
            f"got {tuple(place.shape)} and {tuple(order.shape)}"
        )
    index = order.flatten(1)[:, :, None].expand(-1, -1, place.shape[-1])
    visited = place.gather(1, index).view(*order.shape, place.shape[-1])
    # whose gradient between cities at one place is zero
    return torch.linalg.vector_norm(visited - visited.roll(1, 2), dim=-1).sum(-1)

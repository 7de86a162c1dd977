"""The decoder of the attention model: it points at one city after the other."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class PointerDecoder(nn.Module):
    r"""Choose the next city by attention, until all are visited.

    The context of a step is the mean of all cities, the city before and the first city. Its query
    looks at the cities that are left (the glimpse, several heads), and what it saw scores them by
    :math:`c \tanh(\cdot)`.

    All of this is bilinear in features of two cities but for the softmax and the tanh. So scores
    of pairs of cities are computed once for each instance, and a step adds rows of tables: for few
    cities that is much less work than to project queries and what the glimpse saw.

    Parameters
    ----------
    channels : int
        Of the cities.
    heads : int
        Of the glimpse; divides the channels.
    clip : float
        The largest score c.

    Raises
    ------
    ValueError
        If a number is not positive, or the heads do not divide the channels.

    Equivariance
    ------------
    Equivariant under permutations of cities.

    References
    ----------
    Kool, van Hoof and Welling, "Attention, learn to solve routing problems!", ICLR 2019; Kwon et
    al., "POMO: policy optimization with multiple optima for reinforcement learning", 2020.

    Examples
    --------
    >>> decoder = PointerDecoder(16, 4)
    >>> tours, log_prob = decoder(torch.rand(3, 10, 16), torch.zeros(3, 1, dtype=torch.long))
    >>> tours.shape, log_prob.shape
    (torch.Size([3, 1, 10]), torch.Size([3, 1]))
    """

    def __init__(self, channels: int, heads: int, clip: float = 10.0) -> None:
        super().__init__()
        if min(channels, heads) < 1 or not clip > 0 or channels % heads:
            raise ValueError(
                "numbers must be positive and heads divide channels, got channels "
                f"{channels}, heads {heads}, clip {clip}"
            )
        self.heads, self.clip = heads, clip
        # query from the city before, query from the first, key and value of the glimpse, and key
        # of the scores, in which the output projection of the glimpse is included
        self.project = nn.Linear(channels, 5 * channels, bias=False)
        self.mean = nn.Linear(channels, channels, bias=False)

    def forward(self, h: Tensor, starts: Tensor, sample: bool = False) -> tuple[Tensor, Tensor]:
        """Decode tours from given first cities.

        Parameters
        ----------
        h : Tensor, (B, cities, channels), floating
            Features of the cities.
        starts : Tensor, (B, tours), int64
            First cities.
        sample : bool
            Draw every city from the distribution, by the global random generator; otherwise take
            the one of the highest score.

        Returns
        -------
        tours : Tensor, (B, tours, cities), int64
            Cities in the order of their visits.
        log_prob : Tensor, (B, tours), floating
            Logarithm of the probability of the tour, given its first city.
        """
        clouds, cities, _ = h.shape
        before, first, values = self._tables(h)
        offset = torch.arange(clouds, device=h.device)[:, None] * cities
        fixed = F.embedding(starts + offset, first)  # (B, tours, heads * cities)
        shape = (clouds, starts.shape[1], self.heads, cities)
        closed = h.new_zeros(clouds, starts.shape[1], cities)
        current, tours, log_prob = starts, [starts], h.new_zeros(starts.shape)
        for _ in range(cities - 1):
            closed = closed.scatter(2, current[:, :, None], -math.inf)
            glimpse = (fixed + F.embedding(current + offset, before)).view(shape)
            seen = (glimpse + closed[:, :, None]).softmax(-1)
            scores = self.clip * torch.bmm(seen.flatten(2), values).tanh()
            scores = scores + closed
            chances = scores.log_softmax(-1)
            current = _draw(scores) if sample else chances.argmax(-1)
            log_prob = log_prob + chances.gather(2, current[:, :, None])[:, :, 0]
            tours.append(current)
        return torch.stack(tours, -1), log_prob

    def _tables(self, h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Give what a step reads of pairs of cities.

        The first two are rows of scores of the glimpse, for the city before and the first, the last
        is what the glimpse of a city adds to scores.
        """
        clouds, cities, channels = h.shape
        width = channels // self.heads
        parts = self.project(h).view(clouds, cities, 5, self.heads, width)
        last, first, key, value, score = parts.permute(2, 0, 3, 1, 4)  # (B, heads, cities, width)
        mean = self.mean(h.mean(1)).view(clouds, self.heads, 1, width)
        key = key.mT / math.sqrt(width)
        before, first = (
            (query @ key).transpose(1, 2).flatten(2).flatten(0, 1) for query in (last, first + mean)
        )
        values = (value @ score.mT / math.sqrt(channels)).flatten(1, 2)
        return before, first, values


def _draw(scores: Tensor) -> Tensor:
    """Draw positions by logarithms of probabilities, up to a constant."""
    weights = scores.detach().softmax(-1).cumsum(-1)  # `exp` takes long for infinities
    at = torch.rand(weights.shape[:-1], device=weights.device, dtype=weights.dtype)
    # the last sum is 1 up to rounding only; a visited city adds nothing and is never hit
    drawn = torch.searchsorted(weights, (at * weights[..., -1])[..., None], right=True)[..., 0]
    return drawn.clamp(max=weights.shape[-1] - 1)  # beyond the last where weights are NaN

"""The decoder of the attention model: it points at one city after the other."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class PointerDecoder(nn.Module):
    """Attention decoder that selects one unvisited city after another."""

    # Kool et al., "Attention, learn to solve routing problems!", ICLR 2019; Kwon et al., "POMO:
    # policy optimization with multiple optima for reinforcement learning", 2020.
    def __init__(
        self,
        channels: int,
        heads: int,  # of the glimpse; divides the channels
        clip: float = 10.0,  # largest score c
    ) -> None:
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

    def forward(
        self,
        h: Tensor,  # (B, cities, channels)
        starts: Tensor,  # (B, tours), first cities
        # whether to sample with the global generator instead of the best score
        sample: bool = False,
    ) -> tuple[Tensor, Tensor]:  # (B, tours, cities), (B, tours)
        """Return tours (B, tours, cities) from given first cities, and their log-probabilities."""
        clouds, cities, _ = h.shape
        # Context of a step: mean of all cities, previous city, first city. Its query attends to
        # unvisited cities (the glimpse), and the result scores them by c tanh(.). All but softmax
        # and tanh is bilinear in pairs of cities, so scores are tabulated once per instance.
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
        """Return glimpse scores for previous and first city, and city contributions to scores."""
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
    """Sample positions by log-probabilities, up to a constant."""
    weights = scores.detach().softmax(-1).cumsum(-1)  # `exp` takes long for infinities
    at = torch.rand(weights.shape[:-1], device=weights.device, dtype=weights.dtype)
    # the last sum is 1 up to rounding only; a visited city adds nothing and is never hit
    drawn = torch.searchsorted(weights, (at * weights[..., -1])[..., None], right=True)[..., 0]
    return drawn.clamp(max=weights.shape[-1] - 1)  # beyond the last where weights are NaN

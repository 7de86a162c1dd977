"""The attention model of the travelling-salesman problem."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from equigeo._core.checks import TensorLike, as_indices, as_tensor, check_shape
from equigeo._core.config import Config, check_config, override, within
from equigeo.mds.embed import embed
from equigeo.mds.options import EmbedOptions
from equigeo.nn.state import SavedConfig

SPREAD = 6**-0.5  # root mean square of distances from the center, for points uniform in a square
_QUIET = EmbedOptions(fallback="ignore")  # flags go into the result
_CORNERS = [[a, b] for a in (1.0, -1.0) for b in (1.0, -1.0)]


@dataclass(frozen=True)
class AttentionModelConfig(Config):
    """Options of an :class:`equigeo.mds.AttentionModel`.

    Parameters
    ----------
    inputs : {"mds", "plain"}
        Embedded cities, scaled to the spread of the unit square, or coordinates relative to the
        center of the unit square.
    channels, heads, layers : int
        Sizes of the encoder; heads divide the channels.
    hidden : int
        Channels inside the perceptrons of the encoder.
    clip : float
        Largest score of a city.

    Examples
    --------
    >>> config = AttentionModelConfig.preset("paper", "plain")
    >>> config.channels, AttentionModelConfig.from_dict(config.to_dict()) == config
    (128, True)
    """

    inputs: Literal["mds", "plain"] = "mds"
    channels: int = within(1, 65_536, default=64)
    heads: int = within(1, 65_536, default=4)
    layers: int = within(1, 256, default=3)
    hidden: int = within(1, 65_536, default=256)
    clip: float = within(0.0, 1e6, above=True, default=10.0)

    @classmethod
    def preset(cls, name: str, inputs: Literal["mds", "plain"] = "mds") -> AttentionModelConfig:
        """Return "default" (one hour of training on a CPU core) or "paper" (published size)."""
        if name == "default":
            return cls(inputs)
        if name == "paper":
            return cls(inputs, channels=128, heads=8, hidden=512)
        raise ValueError(f"preset must be default or paper, got {name!r}")


class AttentionModel(SavedConfig):
    """Construct tours by attention over the cities or an embedding of them.

    Layers and decoder follow the publications, except that the first city is given instead of
    learned: by default the one farthest from the centroid.

    Equivariant under permutations of the cities. With ``inputs="mds"``, tours are invariant under
    rotations, reflections, translations and scalings, for instances that are not flagged and up to
    decisions within rounding. References: Kool, van Hoof and Welling, "Attention, learn to solve
    routing problems!", ICLR 2019; Kwon et al., "POMO: policy optimization with multiple optima for
    reinforcement learning", 2020; Zhang et al., "Revisiting transformation invariant geometric deep
    learning", 2021.

    Examples
    --------
    >>> _ = torch.manual_seed(0)
    >>> model = AttentionModel.preset("default").double().eval()
    >>> cities = torch.rand(5, 20, 2, dtype=torch.float64)
    >>> tours, turned = model.solve(cities), model.solve(3 * cities.flip(-1) - 7)
    >>> tours.order.shape, torch.equal(turned.edges(), tours.edges())
    (torch.Size([5, 1, 20]), True)
    """

    config_type = AttentionModelConfig

    def __init__(self, config: AttentionModelConfig) -> None:
        super().__init__()
        check_config(config, AttentionModelConfig)
        self.config = config
        self.encoder = AttentionEncoder(
            2, config.channels, config.heads, config.layers, config.hidden
        )
        self.decoder = PointerDecoder(config.channels, config.heads, config.clip)

    @classmethod
    def preset(
        cls, name: str, inputs: Literal["mds", "plain"] = "mds", **changes: Any
    ) -> AttentionModel:
        """Build a preset of :meth:`equigeo.mds.AttentionModelConfig.preset` with ``changes``."""
        return cls(override(AttentionModelConfig.preset(name, inputs), changes))

    def forward(
        self, cities: TensorLike, starts: TensorLike | None = None, sample: bool = False
    ) -> Tours:
        """Construct tours from given first cities.

        Parameters
        ----------
        cities : Tensor or ndarray, (B, cities, 2), floating
            Finite instances, in the unit square for ``inputs="plain"``. The embedding is computed
            in their dtype, then cast to that of the weights.
        starts : Tensor, (B, tours), int64, optional
            First cities; by default the one farthest from the centroid.
        sample : bool
            Sample tours with the global generator instead of taking the most probable next city.
        """
        places = as_tensor(cities, "cities")
        seen, flagged = self.see(places)
        first = None
        if starts is not None:
            first = as_indices(starts, "starts")
            check_shape(first, "starts", (len(places), "tours"))
        return self._decode(places, seen, flagged, first, sample)

    @torch.no_grad()
    def solve(
        self, cities: TensorLike, *, every_start: bool = False, augment: bool = False
    ) -> Tours:
        """Return the best greedy tour of every instance, given as in :meth:`forward`.

        Parameters
        ----------
        every_start : bool
            Start in every city.
        augment : bool
            Decode all eight sign changes and orders of the axes of the embedding.
        """
        places = as_tensor(cities, "cities")
        seen, flagged = self.see(places)
        starts = None
        if every_start:
            starts = torch.arange(places.shape[1], device=places.device).expand(len(places), -1)
        inputs = self.frames(seen) if augment else seen[None]
        found = [self._decode(places, y, flagged, starts, sample=False) for y in inputs]
        order, length, log_prob = (
            torch.cat([getattr(tours, name) for tours in found], 1)
            for name in ("order", "length", "log_prob")
        )
        return Tours(order, length, log_prob, flagged).best()

    def see(self, cities: TensorLike) -> tuple[Tensor, Tensor]:
        """Return the network input (B, cities, 2) of instances and a mask (B,) of flagged ones.

        The input is centered, with the spread of the unit square, in the dtype of the cities.
        """
        cities = as_tensor(cities, "cities")
        if cities.ndim != 3 or cities.shape[2] != 2 or cities.shape[1] < 1:
            raise ValueError(f"cities must be (B, cities, 2), got {tuple(cities.shape)}")
        if not cities.is_floating_point():
            raise TypeError(f"cities must be floating, got {cities.dtype}")
        if self.config.inputs == "mds":
            result = embed(cities, scale="rms", options=_QUIET)
            return SPREAD * result.y, result.flagged
        if not bool(cities.isfinite().all()):
            raise ValueError("cities must be finite")
        # The center of the unit square, which instances are drawn from.
        return cities - 0.5, cities.new_zeros(len(cities), dtype=torch.bool)

    @staticmethod
    def frames(seen: Tensor) -> Tensor:
        """Return all signs and orders of both axes, (8, B, cities, 2), the identity first."""
        signed = seen * seen.new_tensor(_CORNERS)[:, None, None]
        return torch.cat([signed, signed.flip(-1)])

    def _decode(
        self, cities: Tensor, seen: Tensor, flagged: Tensor, starts: Tensor | None, sample: bool
    ) -> Tours:
        if starts is None:
            with torch.no_grad():
                starts = (seen - seen.mean(1, keepdim=True)).square().sum(-1).argmax(1)[:, None]
        features = self.encoder(seen.to(self.decoder.mean.weight.dtype))
        order, log_prob = self.decoder(features, starts, sample)
        return Tours(order, tour_lengths(cities, order), log_prob, flagged)


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


class AttentionEncoder(nn.Module):
    """Attention encoder of points without positional encoding (Kool et al., ICLR 2019)."""

    def __init__(
        self,
        dim: int,  # coordinates per point
        channels: int,
        heads: int,
        layers: int,
        hidden: int,  # channels inside the perceptrons
    ) -> None:
        super().__init__()
        if min(dim, channels, heads, layers, hidden) < 1 or channels % heads:
            raise ValueError(
                f"numbers must be positive and heads divide channels, got dim {dim}, channels "
                f"{channels}, heads {heads}, layers {layers}, hidden {hidden}"
            )
        self.first = nn.Linear(dim, channels)
        self.layers = nn.ModuleList(_Layer(channels, heads, hidden) for _ in range(layers))

    def forward(
        self,
        x: Tensor,  # (B, points, dim)
    ) -> Tensor:  # (B, points, channels)
        """Encode points."""
        h = self.first(x)
        for layer in self.layers:
            h = layer(h)
        return h


class _Layer(nn.Module):
    """Attention and perceptron, each with a skip connection and batch norm."""

    def __init__(self, channels: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(channels, 3 * channels, bias=False)
        self.unite = nn.Linear(channels, channels, bias=False)
        self.mlp = nn.Sequential(
            nn.Linear(channels, hidden), nn.ReLU(), nn.Linear(hidden, channels)
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(channels) for _ in range(2))

    def forward(self, h: Tensor) -> Tensor:
        clouds, points, channels = h.shape
        rows = h.reshape(-1, channels)
        q, k, v = (
            self.project(rows)
            .view(clouds, points, 3, self.heads, channels // self.heads)
            .permute(2, 0, 3, 1, 4)
        )
        # PyTorch's fused attention supports only first-order reverse mode, and is not faster here.
        heard = torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1) @ v
        heard = heard.transpose(1, 2).reshape(-1, channels)
        rows = self.norms[0](rows + self.unite(heard))
        return self.norms[1](rows + self.mlp(rows)).view(clouds, points, channels)


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

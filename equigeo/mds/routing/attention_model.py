"""The attention model of the travelling-salesman problem."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from equigeo.graphs.inputs import TensorLike, as_indices, as_tensor, check_shape
from equigeo.mds.embedding.embed import embed
from equigeo.mds.embedding.embed_options import EmbedOptions
from equigeo.mds.routing.attention_encoder import AttentionEncoder
from equigeo.mds.routing.attention_model_config import AttentionModelConfig
from equigeo.mds.routing.pointer_decoder import PointerDecoder
from equigeo.mds.routing.tours import Tours, tour_lengths
from equigeo.nn.override import check_config, override
from equigeo.nn.state import SavedConfig

SPREAD = 6**-0.5  # root mean square of distances from the centre, for points uniform in a square

_QUIET = EmbedOptions(fallback="ignore")  # flags go into the result
_CORNERS = [[a, b] for a in (1.0, -1.0) for b in (1.0, -1.0)]


class AttentionModel(SavedConfig):
    """Construct tours by attention over the cities or an embedding of them.

    Layers and decoder follow the publications, except that the first city is given instead of
    learned: by default the one farthest from the centroid.

    Equivariance
    ------------
    Equivariant under permutations of the cities. With ``inputs="mds"``, tours are invariant under
    rotations, reflections, translations and scalings, for instances that are not flagged and up to
    decisions within rounding.

    References
    ----------
    Kool, van Hoof and Welling, "Attention, learn to solve routing problems!", ICLR 2019; Kwon et
    al., "POMO: policy optimization with multiple optima for reinforcement learning", 2020; Zhang et
    al., "Revisiting transformation invariant geometric deep learning", 2021.

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
        """Return the best greedy tour of every instance.

        Parameters
        ----------
        cities : Tensor, (B, cities, 2), floating
            See :meth:`forward`.
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

        The input is centred, with the spread of the unit square, in the dtype of the cities.
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
        # The centre of the unit square, which instances are drawn from.
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

"""The attention model of the travelling-salesman problem."""

from __future__ import annotations

from collections.abc import Mapping
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

    Layers and decoder are the published ones. The first city is given and not learned; where one
    tour is wanted, it is the city farthest from the centroid.

    Parameters
    ----------
    config : AttentionModelConfig
        Inputs and sizes.

    Equivariance
    ------------
    Tours follow permutations of the cities. Behind the embedding, rotations, reflections,
    translations and scalings do not change them, for instances that are not flagged; up to
    decisions as close as rounding, which in float64 do not occur in practice.

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
    >>> tours = model.solve(cities)
    >>> tours.order.shape
    torch.Size([5, 1, 20])
    >>> turned = model.solve(3 * cities.flip(-1) - 7)
    >>> torch.equal(turned.edges(), tours.edges())
    True
    """

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
        """Build a preset, with ``changes`` of :meth:`equigeo.mds.AttentionModelConfig.preset`."""
        return cls(override(AttentionModelConfig.preset(name, inputs), changes))

    @classmethod
    def from_config(cls, config: AttentionModelConfig | Mapping[str, Any]) -> AttentionModel:
        """Build from :attr:`config`, or from the mapping that a checkpoint holds of it.

        Parameters
        ----------
        config : AttentionModelConfig or mapping of JSON types
            Inputs and sizes; what is missing takes its default.

        Raises
        ------
        ValueError
            If a name is unknown, or a value out of range.
        """
        if not isinstance(config, AttentionModelConfig):
            config = AttentionModelConfig.from_dict(config)
        return cls(config)

    def forward(
        self, cities: TensorLike, starts: TensorLike | None = None, sample: bool = False
    ) -> Tours:
        """Construct tours from given first cities.

        Parameters
        ----------
        cities : Tensor or ndarray, (B, cities, 2), floating
            Instances. In float64 they are embedded before they are cast to the dtype of the
            weights. Without an embedding the network expects the unit square.
        starts : Tensor, (B, tours), int64, optional
            First cities; by default the one that is farthest from the centroid.
        sample : bool
            Draw tours, by the global random generator, instead of taking the likeliest next city.

        Returns
        -------
        Tours
            As many as starts.

        Raises
        ------
        TypeError, ValueError
            If the cities are not finite, floating and two-dimensional.
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
            Instances, as of :meth:`forward`.
        every_start : bool
            Start in every city.
        augment : bool
            Decode in all eight frames that signs and order of the axes allow. Frames are applied
            to what the network sees, after the embedding: before it they would change nothing.

        Returns
        -------
        Tours
            One for every instance.

        Raises
        ------
        TypeError, ValueError
            As of :meth:`forward`.
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
        """Return the network input of instances.

        Parameters
        ----------
        cities : Tensor, (B, cities, 2), floating
            Instances.

        Returns
        -------
        seen : Tensor, (B, cities, 2), dtype of the cities
            Centred coordinates with the spread of the unit square.
        flagged : Tensor, (B,), bool
            Whose embedding a symmetry leaves open.

        Raises
        ------
        TypeError, ValueError
            As of :meth:`forward`.
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
        """Return the eight views of an instance: signs of both axes, and their order.

        Parameters
        ----------
        seen : Tensor, (B, cities, 2), floating
            What :meth:`see` gives.

        Returns
        -------
        Tensor, (8, B, cities, 2), dtype of ``seen``
            The first as it was.
        """
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

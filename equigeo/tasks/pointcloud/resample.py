"""Random changes of the sampling of training clouds."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

# Largest share of the points that is lost or, by the last kind, moved out. One of them is uniform
# over the cloud, one beyond a plane through its median, and one at an end.
_LOST = torch.tensor([0.75, 0.75, 0.3, 0.01])
_UNIFORM, _BEYOND, _CUT, _OUTLIERS = range(len(_LOST))


def resample(
    points: Tensor,  # (clouds, points, 3)
    share: float,  # of the clouds that are changed, in (0, 1]
    generator: torch.Generator,
) -> Tensor:
    """Thin clouds out, one side of them or an end, or add outliers, at equal numbers of points."""
    clouds, count, _ = points.shape
    uniform = partial(torch.rand, generator=generator)
    normal = partial(torch.randn, generator=generator)
    which, strength = uniform(2, clouds, 1)
    # beyond the last one: unchanged; the quotient may be infinite
    kind = (which.double() / share * len(_LOST)).clamp(max=len(_LOST)).long()
    known = kind < len(_LOST)
    most = strength * _LOST[kind.clamp(max=len(_LOST) - 1)]
    height = (points @ normal(clouds, 3, 1).to(points))[..., 0]
    rank = height.argsort(1).argsort(1) / count
    chance = torch.where((kind == _BEYOND) & (rank < 0.5), 0, most)
    chance = torch.where(kind == _CUT, (rank >= 1 - most).float(), chance)
    lost = known & (uniform(clouds, count) < chance)
    left, place = (~lost).sum(1, keepdim=True).clamp_min(1), torch.arange(count)
    # in a random order with those that are left first, which are repeated in the place of others
    order = torch.where(known, (uniform(clouds, count) + lost).argsort(1), place)
    found = points.gather(1, order.gather(1, place % left)[..., None].expand(-1, -1, 3))
    # at one to two radii from the center
    center = points.mean(1, keepdim=True)
    radius = torch.linalg.vector_norm(points - center, dim=-1).amax(1)[:, None, None]
    direction = torch.nn.functional.normalize(normal(clouds, count, 3), dim=-1)
    far = center + radius * (direction * (1 + uniform(clouds, count, 1))).to(points)
    return torch.where(((kind == _OUTLIERS) & (place >= left))[..., None], far, found)

"""torch-cluster, or what stands in for it where it is not installed."""

import importlib.util
from types import ModuleType

import torch

INSTALLED = importlib.util.find_spec("torch_cluster") is not None


class StandIn(ModuleType):
    """The three functions as torch-cluster documents them, with ties the other way around."""

    def __init__(self):
        super().__init__("torch_cluster")

    @staticmethod
    def fps(src, batch, ratio, random_start):
        assert not random_start
        chosen = []
        for cloud in range(len(ratio)):
            rows = (batch == cloud).nonzero()[:, 0]
            x, picked = src[rows], [0]
            nearest = (x - x[0]).square().sum(1)
            for _ in range(1, int((len(rows) * ratio[cloud]).ceil())):
                picked.append(int(nearest.argmax()))
                nearest = torch.minimum(nearest, (x - x[picked[-1]]).square().sum(1))
            chosen.append(rows[picked])
        return torch.cat(chosen)

    @staticmethod
    def knn(x, y, k, batch_x, batch_y):
        square = _squares(x, y, batch_x, batch_y).flip(1)
        nearest = len(x) - 1 - square.argsort(dim=1, stable=True)[:, :k]
        there = (batch_x[nearest] == batch_y[:, None]) & ~y.isnan().any(1, keepdim=True)
        return torch.stack([there.nonzero()[:, 0], nearest[there]])

    @staticmethod
    def radius(x, y, r, batch_x, batch_y, max_num_neighbors):
        inside = _squares(x, y, batch_x, batch_y) < r * r  # what lies on the sphere is outside
        assert int(inside.sum(1).max()) <= max_num_neighbors
        return inside.nonzero().mT


def _squares(x, y, batch_x, batch_y):
    square = (y[:, None] - x).square().sum(-1)
    return square.masked_fill(batch_x != batch_y[:, None], torch.inf)

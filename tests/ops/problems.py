"""Sizes and graphs that every segment op must handle."""

from dataclasses import dataclass

import torch
from torch import Tensor

from equigeo.graphs import EdgeIndex


@dataclass(frozen=True)
class Problem:
    """A random graph and the width of its features; rows and sources in excess stay isolated."""

    name: str
    sources: int
    targets: int
    edges: int
    heads: int = 1
    channels: int = 4
    isolated: int = 0

    def graph(self) -> EdgeIndex:
        generator = torch.Generator().manual_seed(self.edges)
        ends = [
            torch.randint(max(1, size - self.isolated), (self.edges,), generator=generator)
            for size in (self.sources, self.targets)
        ]
        return EdgeIndex.from_edges(torch.stack(ends), self.sources, self.targets)

    def randn(self, name: str, *shape: int, dtype: torch.dtype) -> Tensor:
        generator = torch.Generator().manual_seed(sum(map(ord, name)))
        return torch.randn(shape, dtype=dtype, generator=generator)

    @property
    def terms(self) -> int:
        """Bound on the length of a sum: every edge may meet in one row, over all channels."""
        return max(1, self.edges) * max(1, self.channels)

    def __str__(self) -> str:
        return self.name


PROBLEMS = [
    Problem("one channel, one head", 7, 6, 30, channels=1),
    Problem("odd sizes", 13, 11, 60, heads=3, channels=37),
    Problem("full registers", 10, 12, 50, heads=2, channels=128),
    Problem("every block size", 5, 6, 24, channels=255),
    Problem("isolated rows", 9, 9, 5, heads=2, isolated=3),
    Problem("one hub", 40, 1, 300, channels=5),
    Problem("one edge", 1, 1, 1),
    Problem("no edges", 3, 2, 0),
    Problem("no targets", 3, 0, 0),
    Problem("no sources", 0, 3, 0),
    Problem("no channels", 4, 4, 9, channels=0),
    Problem("no heads", 4, 4, 9, heads=0),
    Problem("nothing", 0, 0, 0),
]
SMALL = Problem("small", 4, 5, 9, heads=2, channels=3, isolated=1)
SEVERAL_CHUNKS = Problem("several chunks", 3000, 2500, 12000, heads=2, channels=33)

"""Network that predicts the next state of the vertices of a mesh by masked attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import torch
from torch import Tensor, nn

from equigeo._core.brief import brief_fields
from equigeo._core.checks import check_shape
from equigeo._core.config import Config, check_config, within
from equigeo.datasets.dynamics import STATES, Equation
from equigeo.graphs import EdgeIndex
from equigeo.mesh import MaskedAttention, TriangleMesh, attention_mask
from equigeo.nn import EquivariantRMSNorm, Linear
from equigeo.nn.channel_mixing import Copies
from equigeo.nn.state import SavedConfig
from equigeo.reps import Irreps

_EDGE_SCALARS, _EDGE_VECTORS = 16, 4


@dataclass(frozen=True)
class DynamicsModelConfig(Config):
    """Configuration of a :class:`DynamicsModel`.

    Parameters
    ----------
    equation : {"heat", "wave", "sheet"}
        See :func:`equigeo.datasets.mesh_dynamics`.
    scalars, vectors, heads, blocks : int
        Channels of the vertices, attention heads and blocks.
    reach : float
        Length of the neighborhood that a block reads: on every mesh, as many hops as are about
        this length.
    state_scales, change_scales : tuple of float
        Size of each component of states and of their changes; by default 1.

    Examples
    --------
    >>> config = DynamicsModelConfig("wave", scalars=16)
    >>> DynamicsModelConfig.from_dict(config.to_dict()) == config
    True
    """

    equation: Equation = "heat"
    scalars: int = within(1, 65_536, default=32)
    vectors: int = within(1, 65_536, default=8)
    heads: int = within(1, 1024, default=4)
    blocks: int = within(1, 256, default=3)
    reach: float = within(0.0, 1e6, above=True, default=0.5)
    state_scales: tuple[float, ...] = within(0.0, 1e12, above=True, entries=6, default=())
    change_scales: tuple[float, ...] = within(0.0, 1e12, above=True, entries=6, default=())


@dataclass(frozen=True, eq=False)
class SurfaceStates:
    """States of the vertices of one or more meshes, and the edges that attention reads.

    Make them by :meth:`of` and :meth:`batch`; the constructor does not validate.

    Parameters
    ----------
    mask : EdgeIndex
        Edges between vertices, see :func:`equigeo.mesh.attention_mask`.
    step : Tensor, (edges, 3)
        From target to source on the mesh, at rest for a sheet.
    weight : Tensor, (edges, 1)
        Logarithm of the area at the source over the mean of its mesh.
    state : Tensor, (vertices, dim)

    Examples
    --------
    >>> from equigeo.datasets import mesh_dynamics
    >>> data = mesh_dynamics("wave", number=2, faces=32, steps=1)
    >>> parts = [SurfaceStates.of(m, 0.5, s[0]) for m, s in zip(data.meshes, data.states)]
    >>> SurfaceStates.batch(parts).state.shape
    torch.Size([36, 2])
    """

    mask: EdgeIndex
    step: Tensor
    weight: Tensor
    state: Tensor

    __repr__ = brief_fields

    @classmethod
    def of(cls, mesh: TriangleMesh, reach: float, state: Tensor) -> SurfaceStates:
        """Return a state (vertices, dim) on a mesh, in the dtype of the state.

        ``reach`` is the length of the neighborhoods, that of the configuration of a model.
        """
        if not 0 < reach < inf:
            raise ValueError(f"reach must be positive and finite, got {reach}")
        check_shape(state, "state", (mesh.num_vertices, "dim"))
        corners = mesh.vertices[mesh.faces]
        sides = corners.roll(-1, 1) - corners
        edge = float(sides.norm(dim=2).mean()) if mesh.num_faces else reach
        mask = attention_mask(mesh, hops=max(1, round(reach / max(edge, 1e-9))))
        area = torch.linalg.cross(sides[:, 0], sides[:, 1]).norm(dim=1).repeat_interleave(3)
        mass = area.new_zeros(mesh.num_vertices).index_add(0, mesh.faces.flatten(), area)
        weight = (mass / mass.mean()).clamp_min(1e-9).log()
        source, target = mask.edge_index
        step = mesh.vertices[source] - mesh.vertices[target]
        return cls(mask, step.to(state), weight[source, None].to(state), state)

    @classmethod
    def batch(cls, parts: Sequence[SurfaceStates]) -> SurfaceStates:
        """Join states on several meshes."""
        joined = (
            torch.cat([getattr(p, name) for p in parts]) for name in ("step", "weight", "state")
        )
        return cls(EdgeIndex.disjoint_union([part.mask for part in parts]), *joined)

    def with_state(self, state: Tensor) -> SurfaceStates:
        """Return another state on the same meshes."""
        return replace(self, state=state)

    def to(self, device: torch.device) -> SurfaceStates:
        """Move to a device."""
        tensors = (x.to(device) for x in (self.step, self.weight, self.state))
        return SurfaceStates(self.mask.to(device), *tensors)


class DynamicsModel(SavedConfig):
    r"""Predict the next state of every vertex: the state plus a learned change.

    Vertices have scalars and vectors. Blocks of :class:`equigeo.mesh.MaskedAttention` read
    neighborhoods of a given length rather than of a number of hops, and the logarithm of the area
    at a source is part of its initial logit, so that averages approximate integrals over the
    surface on every tessellation. Edges carry steps between vertices and differences of states;
    the displacement of a sheet is read only through them. Equivariant under rotations, reflections
    and translations of the mesh, with vectors among the states; permuting vertices permutes the
    result.

    Examples
    --------
    >>> from equigeo.datasets import mesh_dynamics
    >>> data = mesh_dynamics("sheet", number=1, faces=32, steps=1)
    >>> model = DynamicsModel(DynamicsModelConfig("sheet", scalars=8, vectors=2, blocks=1)).double()
    >>> start = SurfaceStates.of(data.meshes[0], 0.5, data.states[0][0])
    >>> model(start).shape
    torch.Size([18, 6])
    """

    config: DynamicsModelConfig
    state_scales: Tensor
    change_scales: Tensor
    config_type = DynamicsModelConfig

    def __init__(self, config: DynamicsModelConfig) -> None:
        super().__init__()
        check_config(config, DynamicsModelConfig)
        self.config = config
        self.rep_out = Irreps(STATES[config.equation])
        for name in ("state_scales", "change_scales"):
            scales = getattr(config, name) or (1.0,) * self.rep_out.dim
            if len(scales) != self.rep_out.dim:
                raise ValueError(
                    f"{name} must have {self.rep_out.dim} entries for {config.equation}, "
                    f"got {len(scales)}"
                )
            self.register_buffer(name, torch.tensor(scales), persistent=False)
        rep = Irreps([(config.scalars, (0, 1)), (config.vectors, (1, -1))])
        rep_edge = Irreps([(1 + _EDGE_SCALARS, (0, 1)), (_EDGE_VECTORS, (1, -1))])
        self.is_sheet = config.equation == "sheet"
        self.vectors = 3 if self.is_sheet else 1
        if self.is_sheet:
            self.embed = Linear("1x0e + 1x1o", rep)
        else:
            self.embed = Linear(f"{1 + self.rep_out.dim}x0e", f"{config.scalars}x0e")
        scalars = self.vectors * (self.vectors + 1) // 2 + self.vectors
        scalars += 0 if self.is_sheet else self.rep_out.dim
        self.edge_network = nn.Sequential(
            nn.Linear(scalars, 2 * _EDGE_SCALARS), nn.SiLU(),
            nn.Linear(2 * _EDGE_SCALARS, _EDGE_SCALARS + self.vectors * _EDGE_VECTORS),
        )  # fmt: skip
        self.blocks = nn.ModuleList(
            _Block(rep, rep_edge, config.heads) for _ in range(config.blocks)
        )
        self.head = Linear(rep, self.rep_out)

    def forward(self, given: SurfaceStates) -> Tensor:
        """Return the next states (vertices, dim)."""
        state = given.state
        check_shape(state, "state", (given.mask.num_targets, self.rep_out.dim))
        scaled = state / self.state_scales.to(state)
        ones = scaled.new_ones(len(scaled), 1)
        x = self.embed(torch.cat([ones, scaled[:, 3:] if self.is_sheet else scaled], 1))
        x = nn.functional.pad(x, (0, self.head.irreps_in.dim - x.shape[1]))
        x_edge = self._edges(given, scaled)
        for block in self.blocks:
            x = block(x, given.mask, x_edge)
        change: Tensor = self.head(x) * self.change_scales.to(state)
        return state + change

    def _edges(self, given: SurfaceStates, scaled: Tensor) -> Tensor:
        """Return features of edges: weight, scalars and vectors, (edges, rep_edge.dim)."""
        source, target = given.mask.edge_index
        reach = self.config.reach
        difference = scaled[source] - scaled[target]
        if self.is_sheet:
            moved = given.state[source, :3] - given.state[target, :3]
            steps = [given.step / reach, (given.step + moved) / reach, difference[:, 3:]]
            vectors, others = torch.stack(steps, 1), []
        else:
            vectors, others = given.step[:, None] / reach, [difference]
        products = vectors @ vectors.mT
        first, second = torch.triu_indices(self.vectors, self.vectors, device=products.device)
        lengths = (1e-12 + products.diagonal(dim1=1, dim2=2)).sqrt()
        found = self.edge_network(torch.cat([products[:, first, second], lengths, *others], 1))
        scalars, factors = found[:, :_EDGE_SCALARS], found[:, _EDGE_SCALARS:]
        mixed = factors.unflatten(1, (_EDGE_VECTORS, self.vectors)) @ vectors
        return torch.cat([given.weight, scalars, mixed.flatten(1)], 1)


class _Block(nn.Module):
    """Attention, then a network on invariants that gates a linear map; both are added."""

    def __init__(self, rep: Irreps, rep_edge: Irreps, heads: int) -> None:
        super().__init__()
        self.scalars = rep[0].mul
        self.norms = nn.ModuleList(EquivariantRMSNorm(rep) for _ in range(2))
        share = max(1, self.scalars // heads)
        self.attention = MaskedAttention(rep, rep, rep_edge, heads=heads, channels=share)
        self.copies = Copies(rep)
        self.linear = Linear(rep, rep)
        hidden = 2 * self.copies.count
        self.network = nn.Sequential(
            nn.Linear(self.copies.count, hidden), nn.SiLU(),
            nn.Linear(hidden, self.copies.count + self.scalars),
        )  # fmt: skip
        bias: Any = self.attention.edge_bias
        with torch.no_grad():  # weights of an integral over the surface
            bias.weight[:, 0] = 1

    def forward(self, x: Tensor, mask: EdgeIndex, x_edge: Tensor) -> Tensor:
        x = x + self.attention(self.norms[0](x), mask, x_edge)
        y = self.norms[1](x)
        gates, added = self.network(self.copies.invariants(y)).split(
            (self.copies.count, self.scalars), 1
        )
        y = self.copies.scale(self.linear(y), gates)
        padded = nn.functional.pad(added, (0, y.shape[1] - self.scalars))
        return x + y + padded

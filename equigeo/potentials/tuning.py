"""Adaptation of trained potentials: more elements, frozen parts and low-rank updates."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from equigeo._core.checks import USUAL_STATE
from equigeo.nn import Linear
from equigeo.potentials.potential import MessagePassingPotential


@torch.no_grad()
def with_species(
    model: MessagePassingPotential,
    species: Iterable[int],  # atomic numbers, known or not
    states: Mapping[str, Iterable[int]] | None = None,  # "charge" and "spin", known or not
) -> MessagePassingPotential:
    """Return the potential for more elements, charges and spins, with weights of a new one."""
    known, size = model.config.species, model.config.channels**2
    every = tuple(sorted({*known, *species}))
    config = replace(model.config, species=every)
    for name, values in (states or {}).items():
        found = {USUAL_STATE[name], *values, *getattr(config, f"{name}s")}
        config = replace(config, **{f"{name}s": tuple(sorted(found))})
    if config == model.config:
        return model
    wide = MessagePassingPotential(config).to(model.embedding.weight)
    wide.scale.fill_(model.scale.mean())
    old, tables = model.state_dict(), species_tables(model)
    places = torch.tensor([every.index(z) for z in known])

    def rows(name: str, value: Tensor, number: int) -> Tensor:
        """Return a view of a table with elements, of which there are ``number``, first."""
        if name.endswith("skip.linear.weight"):  # a block per irrep and element
            return value.view(-1, number, size).transpose(0, 1)
        return value

    for name, value in wide.state_dict().items():
        if name.startswith("states."):
            continue
        if name in tables:
            rows(name, value, len(every))[places] = rows(name, old[name], len(known))
        elif value.shape == old[name].shape:  # the masks of other shapes are ones
            value.copy_(old[name])
    for name, embed in model.states.items():
        new = wide.states[name]
        rows_of = (new.tables["others"][:, None] == embed.tables["others"]).to(new.weight)
        new.weight.copy_(rows_of @ embed.weight)
    return wide.train(model.training)


def species_tables(model: MessagePassingPotential) -> set[str]:
    """Return the names of weights and references that have rows per element."""
    tables = {"e0", "scale", "embedding.weight"}
    for k in range(model.config.layers):
        tables.add(f"layers.{k}.skip.linear.weight")
        if model.config.node != "gate":
            tables.add(f"layers.{k}.update.weight")
    return tables


def freeze(model: MessagePassingPotential, parts: Sequence[str]) -> None:
    """Exclude parts of a potential from training: "body", "embedding", "radial", "layers.0", ..."""
    named = {name: x for name, x in model.named_parameters() if not _is_read_out(name)}
    found = {
        "body": list(named),
        "embedding": [name for name in named if name.startswith(("embedding.", "states."))],
        "radial": [name for name in named if ".radial" in name],
    }
    for k in range(model.config.layers):
        found[f"layers.{k}"] = [name for name in named if name.startswith(f"layers.{k}.")]
    if unknown := [part for part in parts if part not in found]:
        raise ValueError(
            f"parts to freeze must be among {', '.join(found)}, got {', '.join(unknown):.80}"
        )
    for name in (name for part in parts for name in found[part]):
        named[name].requires_grad_(False)


def _is_read_out(name: str) -> bool:
    return ".readout." in name or name.startswith("moments.")


class Heads(nn.Module):
    """Potentials with the same weights but for last read-outs and references, by name."""

    def __init__(self, model: MessagePassingPotential, names: Sequence[str]) -> None:
        super().__init__()
        self.names, self.config = tuple(names), model.config
        last = f"layers.{model.config.layers - 1}.readout."
        shared = {id(x): x for name, x in model.named_parameters() if not name.startswith(last)}
        others = (copy.deepcopy(model, dict(shared)) for _ in self.names[1:])
        self.potentials = nn.ModuleList([model, *others])
        self.train(model.training)

    def __getitem__(self, name: str) -> MessagePassingPotential:
        if name not in self.names:
            raise KeyError(f"head must be one of {', '.join(self.names)}, got {name!r:.80}")
        return cast(MessagePassingPotential, self.potentials[self.names.index(name)])

    @torch.no_grad()
    def take(self, name: str, other: MessagePassingPotential) -> None:
        """Set the last read-out and known references of a head to those of another potential."""
        own, species = self[name], self.config.species
        layers: Any = (own.layers[-1], other.layers[-1])
        state = layers[0].readout.state_dict()
        for key, value in layers[1].readout.state_dict().items():
            module, _, weight = key.rpartition(".")
            updated = f"{module}.parametrizations.{weight}.original"  # with low-rank updates
            state[updated if updated in state else key].copy_(value)
        own.e0[[species.index(z) for z in other.config.species]] = other.e0


def potential_of(model: nn.Module, head: int) -> Any:
    """Return the potential of a head, by position; any other model is its only one."""
    return model.potentials[head] if isinstance(model, Heads) else model


def number_of_heads(model: nn.Module) -> int:
    """Return the number of potentials of a model."""
    return len(model.potentials) if isinstance(model, Heads) else 1


class LowRank(nn.Module):
    """Parametrization of weights: each block is the given one plus a product of low rank."""

    def __init__(
        self,
        weight: Tensor,
        blocks: Iterable[tuple[int, int, int]],  # number, rows and columns of equal blocks in order
        rank: int,  # largest rank
    ) -> None:
        super().__init__()
        self.left, self.right = nn.ParameterList(), nn.ParameterList()
        for number, rows, columns in blocks:
            inner = min(rank, rows, columns)
            left = torch.randn(number, rows, inner).to(weight)
            self.left.append(left / inner**0.5)
            self.right.append(weight.new_zeros(number, inner, columns))  # no update at first

    def forward(self, weight: Tensor) -> Tensor:
        """Add the products."""
        pairs = zip(self.left, self.right, strict=True)
        return weight + torch.cat([(a @ b).flatten() for a, b in pairs]).view_as(weight)


def add_low_rank(model: MessagePassingPotential, rank: int) -> None:
    """Train updates of low rank in place of the weights that are not frozen."""
    learned = [
        (module, name, weight)
        for module in model.modules()
        for name, weight in module.named_parameters(recurse=False)
        if weight.requires_grad
    ]
    for module, name, weight in learned:
        weight.requires_grad_(False)
        if not isinstance(module, nn.Embedding):
            update = LowRank(weight, _blocks(module, weight, model.config.channels), rank)
            parametrize.register_parametrization(module, name, update)


def _blocks(module: nn.Module, weight: Tensor, channels: int) -> list[tuple[int, int, int]]:
    """Return number, rows and columns of the blocks of a weight, equal ones together."""
    if isinstance(module, Linear):
        shapes = groupby(instruction.path_shape for instruction in module.instructions)
        return [(len([*equal]), rows, columns) for (rows, columns), equal in shapes]
    columns = channels if weight.ndim == 1 else weight.shape[-1]
    number = len(weight) if weight.ndim > 2 else 1  # of elements
    return [(number, weight.numel() // (number * columns), columns)]

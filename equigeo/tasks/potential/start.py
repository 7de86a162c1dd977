"""Start of a run: references of the data, weights of an earlier run, and replay of its data."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from equigeo._core.checks import USUAL_STATE, state_of
from equigeo.datasets import AtomicFrames
from equigeo.datasets.atoms.frames import place_of, symbol
from equigeo.nn.module import evaluating
from equigeo.potentials import MessagePassingPotential, PotentialConfig, fit_references
from equigeo.potentials.tuning import Heads, add_low_rank, freeze, species_tables, with_species
from equigeo.tasks.potential.data import (
    SIZES,
    AtomicSource,
    PotentialData,
    PotentialRunConfig,
    heads_of,
    moment_of,
)
from equigeo.tasks.potential.errors import measure_errors
from equigeo.training.process import enter_stream, seed_sequence


def set_references(
    model: MessagePassingPotential, data: PotentialData, avg_neighbors: float
) -> None:
    """Set the reference energies and the scale of a potential from its training frames."""
    e0 = reference_energies(data)
    # RMS of forces, or of energies per atom without references.
    labelled = [frame for frame in data.train if frame.forces is not None]
    if labelled:
        scale = AtomicFrames(tuple(labelled)).stacked_forces().square().mean().sqrt().item()
    else:
        scale = _spread(data.train, dict(zip(data.split.train.species, e0, strict=True)))
    # labels that are all alike have no scale of their own
    model.set_references(e0, scale if scale > 0 else 1.0, avg_neighbors or 1.0)


def reference_energies(data: PotentialData) -> Sequence[float]:
    """Return the energy in eV of an atom of each element, ascending by atomic number."""
    # Energies of isolated atoms if known, else least squares on `data.train`; elements without data
    # get zero, the solution of least norm.
    species, isolated = data.split.train.species, data.split.isolated
    numbers, energies = [], []
    for frame in data.train:
        known = [z for z in frame.numbers.tolist() if z in isolated]
        if frame.energy is not None and len(known) < len(frame):
            numbers.append([z for z in frame.numbers.tolist() if z not in isolated])
            energies.append(frame.energy - sum(isolated[z] for z in known))
    found = dict(isolated)
    if numbers:
        fitted = fit_references(numbers, energies)
        found |= zip(fitted.species, fitted.energies, strict=True)
    return [found.get(z, 0.0) for z in species]


def reference_source(data: PotentialData, config: PotentialRunConfig) -> str:
    """Return the source of the reference energies."""
    species, isolated, fit = data.split.train.species, data.split.isolated, "least squares"
    if config.start_from:
        some = ", and isolated atoms for new elements" if isolated else ""
        errors = f"{fit} of the errors{some}"
        if data.replay is None:
            return errors
        kept = f"the potential to start from, and isolated atoms or {fit} for new elements"
        return f"{errors}; of replayed heads, {kept}" if config.heads else kept
    known, fitted = (
        " ".join(symbol(z) for z in species if (z in isolated) == kind) for kind in (True, False)
    )
    if not known or not fitted:
        return "isolated atoms" if known else fit
    return f"isolated atoms ({known}) and {fit} ({fitted})"


def _spread(frames: AtomicFrames, e0: dict[int, float]) -> float:
    rest = [
        (frame.energy - sum(e0[z] for z in frame.numbers.tolist())) / len(frame)
        for frame in frames
        if frame.energy is not None
    ]
    return float(np.sqrt(np.mean(np.square(rest)))) if rest else 1.0


def check_sizes(model: MessagePassingPotential, config: PotentialRunConfig) -> None:
    """Raise if a configuration asks for another potential than that of its checkpoint."""
    pairs = {name: (getattr(model.config, name), getattr(config, name)) for name in SIZES}
    found = [f"{name} {own}, asked {asked}" for name, (own, asked) in pairs.items() if own != asked]
    found += [f"no {name}" for name in config.outputs if name not in model.config.outputs]
    if found:
        raise ValueError(
            f"{config.start_from}: the potential has {'; '.join(found)}; leave these out with "
            "--start-from"
        )


def shift_references(
    model: MessagePassingPotential,
    known: Sequence[int],  # elements of the initial weights
    data: PotentialData,
    source: AtomicSource | None = None,  # of its training frames, if built
) -> None:
    """Shift the reference energies of a trained potential to those of the training frames."""
    # The network is kept: scales and the number of neighbors are part of it. Energies of another
    # level of theory differ by an amount per element, which would otherwise be learned as forces.
    # Energies of isolated atoms are of new elements alone: fitted references differ from them.
    species, old, isolated = model.config.species, data.replay, data.split.isolated
    new = {*species} - {*known}
    frames = data.train
    if old is not None:
        if not new:
            return
        isolated = {**old.split.isolated, **isolated}
        source, frames = None, replace(frames, frames=(*frames, *old.train))
    source = source or AtomicSource.of_frames(frames, model.config.cutoff)
    isolated = {z: energy for z, energy in isolated.items() if z in new}
    e0 = dict(zip(species, model.e0.tolist(), strict=True)) | isolated
    model.set_references(e0)
    with torch.enable_grad(), evaluating(model):
        errors = measure_errors(model, source)
    left = (errors.energy_label - errors.energy).numpy()
    rows = [numbers.tolist() for numbers in errors.numbers.split(errors.counts.tolist())]
    # New elements come first: frames of one composition do not determine their elements.
    for free in (new, {*species}) if old is None else (new,):
        counted = [[z for z in numbers if z in free - {*isolated}] for numbers in rows]
        chosen = [k for k, some in enumerate(counted) if some and np.isfinite(left[k])]
        if not chosen:
            continue
        fitted = fit_references([counted[k] for k in chosen], left[chosen])
        shifts = dict(zip(fitted.species, fitted.energies, strict=True))
        left = left - [sum(shifts.get(z, 0.0) for z in some) for some in counted]
        for z, shift in shifts.items():
            e0[z] += shift
    model.set_references(e0)


def by_head(frames: AtomicFrames, heads: Sequence[str], head: str) -> dict[str, AtomicFrames]:
    """Return the frames of each head that has some."""
    own = heads_of(frames, heads, head)
    chosen = {each: [k for k, one in enumerate(own) if one == each] for each in heads}
    return {each: frames.select(some) for each, some in chosen.items() if some}


def data_by_head(
    data: PotentialData,
    config: PotentialRunConfig,
    place: int = 0,  # of the head of isolated atoms that do not state theirs
) -> dict[str, PotentialData]:
    """Return the data of each head that has frames to train on or to replay."""
    found: dict[str, PotentialData] = {}
    if not config.heads:
        return found
    levels = data.split.isolated_by_head or {"": data.split.isolated}
    if unknown := ", ".join(map(repr, levels.keys() - {"", *config.heads})):
        raise ValueError(
            f"{data.train.name}: isolated atoms have the head {unknown:.80}, expected "
            f"{', '.join(config.heads)}"
        )
    for name, frames in by_head(data.train, config.heads, config.head).items():
        isolated = dict(levels.get("", {})) if name == config.heads[place] else {}
        split = replace(data.split, isolated=isolated | {**levels.get(name, {})})
        found[name] = PotentialData(split, frames, data.validation)
    if data.replay is not None:
        for name, old in data_by_head(data.replay, config, -1).items():
            found[name] = replace(found.get(name, old), replay=old)
    return found


def check_learned(
    model: MessagePassingPotential,
    first: PotentialConfig,  # of the initial weights
) -> None:
    """Raise if elements, charges or spins are new and their weights are not trained."""
    new = " ".join(symbol(z) for z in model.config.species if z not in first.species)
    learned = {name for name, weight in model.named_parameters() if weight.requires_grad}
    if new and not {*species_tables(model)} - {"e0", "scale"} <= learned:
        raise ValueError(
            f"the initial weights do not know {new}, whose own weights must be trained; leave out "
            "--lora and --freeze, except --freeze radial"
        )
    for name in model.states:
        added = getattr(model.config, f"{name}s") != getattr(first, f"{name}s")
        if added and not any(weight.startswith(f"states.{name}.") for weight in learned):
            raise ValueError(f"the initial weights do not know each {name}: leave out --freeze")


def begin(
    config: PotentialRunConfig,
    data: PotentialData,
    source: AtomicSource,  # of the training frames
    model: Any,  # to train, or None
    first: Any,  # trained potential to start from, or None
) -> tuple[Any, AtomicSource]:
    """Return the potential of a run, and the source with the frames that it has learned."""
    enter_stream(config.seed, "model")
    sets = [data.split.train, *([] if data.replay is None else [data.replay.split.train])]
    states = states_to_learn(config, *sets)
    for name, values in states.items():
        is_known = first is not None and name in first.model.states
        if values == [USUAL_STATE[name]] and not is_known:
            raise ValueError(
                f"{data.train.name}: all frames have the {name} {values[0]}; leave {name} out of "
                "--inputs"
            )
    if first is not None:
        species = [z for frames in sets for z in frames.species]
        model = copy.deepcopy(with_species(first.model, species, states))  # `first` stays
        source = replace(source, earlier=first.samples)
    elif model is None:
        if config.freeze or config.lora or config.replay:
            raise ValueError(
                "--freeze, --lora and --replay are for trained weights; add --start-from"
            )
        model = MessagePassingPotential(config.model(data.split.train.species, states))
        first_part = next(iter(data_by_head(data, config).values()), data)
        set_references(model, first_part, source.avg_neighbors)
    if first is None and (config.lora or config.freeze):
        model = copy.deepcopy(model)  # a given one keeps its form and what it learns
    freeze(model, config.freeze)
    if config.lora:
        add_low_rank(model, config.lora)
    if first is not None:
        check_learned(model, first.model.config)
    return _with_references(config, data, source, model, first), source


def _with_references(
    config: PotentialRunConfig,
    data: PotentialData,
    source: AtomicSource,
    model: MessagePassingPotential,
    first: Any,
) -> nn.Module:
    """Return the potential, with heads if there are, after setting the references of a start."""
    known = () if first is None else first.model.config.species
    if not config.heads:
        if first is not None:
            shift_references(model, known, data, source)
        return model
    heads, parts = Heads(model, config.heads), data_by_head(data, config)
    for name in config.heads:
        if first is not None and first.heads is not None and name in first.heads.names:
            heads.take(name, first.heads[name])
        if name not in parts:
            if first is None:
                raise ValueError(f"{data.train.name}: no training frame has the head {name!r:.80}")
        elif first is None:
            heads[name].set_references(reference_energies(parts[name]))
        else:
            shift_references(heads[name], known, parts[name])
    return heads


def check_levels(data: PotentialData) -> None:
    """Raise for several levels of theory, which a run without heads would mix."""
    parts = [data] if data.replay is None else [data, data.replay]
    frames = [f for part in parts for each in (part.train, part.validation) for f in each]
    levels = [part.split.isolated_by_head for part in parts]
    found = {str(f.info["head"]) for f in frames if "head" in f.info}
    found |= {name for level in levels for name in level if name}
    if len(found) > 1:
        raise ValueError(
            f"{data.split.name}: frames have the heads {', '.join(sorted(found)):.200}; name them "
            "with --heads, or leave frames of one"
        )
    for part, level in zip(parts, levels, strict=True):
        for z in part.split.isolated:
            if len({energies[z] for energies in level.values() if z in energies}) > 1:
                raise ValueError(
                    f"{part.split.name}: isolated atoms of {symbol(z)} have other energies with "
                    "the head than without one; leave atoms of one level, or name it with --heads"
                )


def states_to_learn(config: PotentialRunConfig, *sets: AtomicFrames) -> dict[str, list[int]]:
    """Return the values of each input that occur in frames, ascending."""
    frames = [frame for each in sets for frame in each]
    return {name: sorted({state_of(x.info, name) for x in frames}) for name in config.inputs}


def check_moments(frames: AtomicFrames, outputs: Iterable[str]) -> None:
    """Raise for the first frame with a label of an output that cannot be learned."""
    for name in outputs:
        for k, frame in enumerate(frames):
            try:
                _ = name in frame.info and moment_of(frame, name)
            except ValueError as error:
                raise ValueError(f"{place_of(frames, k)}: {error}") from error


def check_known(frames: AtomicFrames, config: PotentialConfig) -> None:
    """Raise for the first frame with an element, charge or spin that a potential does not know."""
    species = " ".join(map(symbol, config.species))
    inputs = {name: getattr(config, f"{name}s") for name in USUAL_STATE}
    for k, frame in enumerate(frames):
        unknown = " ".join(map(symbol, sorted({*frame.numbers.tolist()} - {*config.species})))
        if unknown:
            raise ValueError(
                f"{place_of(frames, k)} has {unknown}, and the potential knows {species} alone"
            )
        for name, known in inputs.items():
            if known and (value := state_of(frame.info, name)) not in known:
                raise ValueError(
                    f"{place_of(frames, k)} has the {name} {value}, and the potential knows "
                    f"{', '.join(map(str, known))} alone"
                )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ReplayingSource(AtomicSource):
    """Source with frames that are drawn anew in every epoch from those of an earlier one."""

    old: AtomicSource
    share: float  # of the frames of an epoch that are old

    def __post_init__(self) -> None:
        """Set labels, as many as an epoch has frames."""
        number = len(self.parts)
        total = max(number + 1, round(number / (1 - self.share)))
        object.__setattr__(self, "labels", torch.zeros((), dtype=torch.int64).expand(total))

    def of_epoch(self, seed: int, epoch: int) -> AtomicSource:
        drawn, old = len(self) - len(self.parts), self.old.parts
        order = np.random.default_rng(seed_sequence(seed, "replay", epoch))
        # no frame twice, or all of them equally often
        chosen = order.permutation(max(drawn, len(old)))[:drawn] % len(old)
        return AtomicSource((*self.parts, *(old[k] for k in chosen)), self.frames)

    def digests(self) -> Tensor:
        return torch.cat([super().digests(), self.old.digests()])

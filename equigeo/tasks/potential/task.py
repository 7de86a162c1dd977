"""Fit, trained model, evaluation and command-line task of interatomic potentials."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, get_args

import torch
from torch import nn

from equigeo._core.checks import USUAL_STATE
from equigeo.datasets import AtomicFrames
from equigeo.datasets.atoms.extxyz import read_structures
from equigeo.datasets.atoms.frames import symbol
from equigeo.datasets.atoms.published import load_every_frame
from equigeo.nn.module import evaluating
from equigeo.potentials import LastLayerUncertainty, MessagePassingPotential
from equigeo.potentials.config import DEGREES, NodeName, ProductName
from equigeo.potentials.tuning import Heads
from equigeo.tasks.common.arguments import Argument, natural, number, positive, words
from equigeo.tasks.potential.data import (
    _MANY,
    LABELS,
    POTENTIAL_PRESETS,
    SIZES,
    AtomicSource,
    PotentialData,
    PotentialRunConfig,
    frame_digests,
    load_frames,
)
from equigeo.tasks.potential.errors import (
    FrameErrors,
    PotentialEvaluation,
    Uncertainties,
    describe_offset,
    fit_uncertainty,
    format_predictions,
    measure_errors,
    parity_pairs,
    potential_table,
    predicted_entries,
    read_uncertainty,
)
from equigeo.tasks.potential.objective import CompiledObjective, EnergyForcesStress
from equigeo.tasks.potential.start import (
    ReplayingSource,
    begin,
    by_head,
    check_known,
    check_levels,
    check_moments,
    check_sizes,
    reference_source,
)
from equigeo.tasks.task import (
    ALLOW_TRAINED,
    EvaluationOutput,
    FilePrediction,
    Task,
    describe_trained_on,
    number_trained_on,
    run_facts,
)
from equigeo.training.config import RunConfig
from equigeo.training.objective import FitPlan, Objective
from equigeo.training.trained_model import TrainedModel


def _evaluate(
    sources: Mapping[str, AtomicSource], forces: bool, model: nn.Module
) -> dict[str, float]:
    """Return errors of forces, of energies per atom, and the one shown during training."""
    found: dict[str, float | None] = {}
    for name, source in sources.items():
        with torch.enable_grad(), evaluating(model):
            errors = measure_errors(model, source)
        per_atom = replace(errors, periodic=True).energy_mae
        found |= {f"{name}_force_mae": errors.force_mae, f"{name}_energy_mae": per_atom}
        for moment in DEGREES:
            if len(left := errors.moment_errors(moment)):
                found[f"{name}_{moment}_mae"] = left.abs().mean().item()
    found["validation_error"] = found[f"validation_{'force' if forces else 'energy'}_mae"]
    return {name: value for name, value in found.items() if value is not None}


FORMATS: Final = ("extxyz", "json")


@dataclass(frozen=True, eq=False, repr=False)
class TrainedPotential(TrainedModel[PotentialRunConfig]):
    """Trained potential, as ``equigeo evaluate`` loads it.

    Of a run with several heads, ``model`` is the potential of the first and ``heads[name]`` that of
    another, both for every engine.
    """

    heads: Heads | None = None

    task, what, config_type = "potential", "potential", PotentialRunConfig

    @classmethod
    def build(cls, model: dict[str, Any], config: Any) -> Any:
        found = MessagePassingPotential.from_config(model)
        return Heads(found, config.heads) if config.heads else found

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> TrainedPotential:
        found = super().load(path)
        if isinstance(found.model, Heads):
            return replace(found, model=found.model.potentials[0], heads=found.model)
        return found

    @classmethod
    def read_novelty(cls, state: dict[str, Any], model: Any, classes: int) -> Uncertainties:
        return read_uncertainty(state, model)

    def to(self, device: torch.device) -> None:
        (self.model if self.heads is None else self.heads).to(device)

    @property
    def uncertainty(self) -> LastLayerUncertainty | None:
        """Uncertainties of ``model``; None in checkpoints of unfinished runs."""
        return self.uncertainty_of(0)

    def uncertainty_of(self, head: str | int) -> LastLayerUncertainty | None:
        """Return the uncertainties of a head by its name or place, or None."""
        place = self.config.heads.index(head) if isinstance(head, str) else head
        return None if self.novelty is None else self.novelty.heads[place]

    @property
    def species(self) -> str:
        """Symbols of the supported elements."""
        return " ".join(map(symbol, self.model.config.species))

    def errors(self, frames: AtomicFrames) -> FrameErrors:
        """Compute energies, forces and, for periodic frames, stresses, with the labels.

        Raises ``ValueError`` for elements, charges and spins that the potential does not support.
        """
        check_known(frames, self.model.config)
        heads, config = self.heads, self.config
        names, head = ((), "") if heads is None else (heads.names, config.head)
        cutoff = self.model.config.cutoff
        source = AtomicSource.of_frames(frames, cutoff, heads=names, head=head)
        model = self.model if heads is None else heads
        stress = any(any(f.pbc) for f in frames)
        return measure_errors(model, source, stress=stress, uncertainty=self.novelty)

    def predict_frames(self, frames: AtomicFrames) -> AtomicFrames:
        """Return the same structures with predicted energies, forces and stresses (eV, angstrom).

        Stresses are predicted if all axes are periodic. Dipoles, polarizabilities and
        ``energy_uncertainty`` are entries of ``info``, and ``forces_uncertainty`` is one of
        ``columns``, as far as the checkpoint has them. Other fields of the frames stay.
        """
        found = self.errors(frames)
        forces = found.forces.double().split(found.counts.tolist())
        predicted = (
            replace(
                frame,
                energy=found.energy[k].item(),
                forces=forces[k],
                stress=found.stress[k] if all(frame.pbc) else None,
                **predicted_entries(frame, found, k),
            )
            for k, frame in enumerate(frames)
        )
        return AtomicFrames(tuple(predicted), frames.name)


def evaluate_potential(trained: TrainedPotential, data: PotentialData) -> PotentialEvaluation:
    """Compute errors on the validation frames and on every test set.

    Examples
    --------
    >>> from equigeo.datasets import AtomicFrame, AtomicFrames, AtomicSplit
    >>> from equigeo.potentials import MessagePassingPotential, PotentialConfig
    >>> from equigeo.tasks.potential import PotentialRunConfig
    >>> atom = AtomicFrame(torch.tensor([1]), torch.zeros(1, 3).double(), energy=0.5)
    >>> frames = AtomicFrames((atom,))
    >>> model = MessagePassingPotential(PotentialConfig((1,), channels=4)).eval()
    >>> trained = TrainedPotential(model, (), PotentialRunConfig("memory"), "0.2.0")
    >>> data = PotentialData(AtomicSplit("one atom", frames), frames, frames)
    >>> evaluate_potential(trained, data).sets["validation"]["energy MAE (meV)"]
    500.0
    """
    return evaluate_frames(trained, data.held_out, data.split.remark)


def evaluate_frames(
    trained: TrainedPotential,
    sets: Mapping[str, AtomicFrames],
    remark: str = "",  # note for the reader of the figures
) -> PotentialEvaluation:
    """Compute errors on sets of frames, for the labels that each has."""
    for frames in sets.values():
        labels = ("energy", "forces", "stress")
        if all(len(frames.lacking(label)) == len(frames) for label in labels) and not any(
            name in frame.info for frame in frames for name in trained.model.config.outputs
        ):
            raise ValueError(
                f"{frames.name}: no frame has an energy, forces or a stress to compare with"
                f"{frames.found_keys}"
            )
    if trained.heads is not None:
        split = partial(by_head, heads=trained.heads.names, head=trained.config.head)
        parts = {name: split(frames) for name, frames in sets.items()}
        sets = {f"{name}, {each}": x for name in sets for each, x in parts[name].items()}
    found = {name: trained.errors(part) for name, part in sets.items()}
    return PotentialEvaluation(
        sets={name: errors.summary() for name, errors in found.items()},
        species={
            name: {symbol(z): row for z, row in errors.by_species().items()}
            for name, errors in found.items()
        },
        parity={name: parity_pairs(errors) for name, errors in found.items()},
        remark="; ".join(filter(None, [remark, *map(describe_offset, found, found.values())])),
        trained_on=trained.trained_on(torch.cat([frame_digests(part) for part in sets.values()])),
    )


def summarize_potential(
    trained: TrainedPotential,
    evaluation: PotentialEvaluation,
    data: PotentialData | str,  # training data if they were evaluated, else the name of others
    command: str,  # that produced the results
) -> dict[str, Any]:
    """Collect the input of ``equigeo.report.render_potential_report``, as JSON types."""
    config, model = trained.config, trained.model.config
    lead, facts = _subject(config, data, evaluation)
    found, *others = run_facts(
        trained,
        config,
        f"product {model.product}, node {model.node}, {model.channels} channels, degrees up to "
        f"{model.lmax_edge} of messages and {model.lmax_hidden} of features, {model.layers} "
        f"layers, cutoff {model.cutoff:g} A, elements {trained.species}",
    )
    loss = "{:g} energies per atom, {:g} forces, {:g} stresses".format(*config.weights)
    loss += "".join(f", {weight:g} {name} per atom" for name, weight in config.outputs.items())
    if config.huber_delta:
        loss += f"; linear above {config.huber_delta:g}"
    facts += [found, ("weights of the loss", loss), *others]
    return {
        "title": "Interatomic potential",
        "lead": lead,
        "command": command,
        "facts": facts,
        "warning": evaluation.remark,
        "history": trained.history,
        "unit": "meV/A" if config.forces_weight else "meV/atom",
        "sets": evaluation.sets,
        "species": evaluation.species,
        "parity": evaluation.parity,
    }


def _subject(
    config: PotentialRunConfig, data: PotentialData | str, evaluation: PotentialEvaluation
) -> tuple[str, list[tuple[str, str]]]:
    """Return the lead of the page and facts on the evaluated data."""
    run = f"{config.data} {config.subset}".strip()
    seen = number_trained_on(evaluation.trained_on, evaluation.num_frames, "frames")
    if isinstance(data, str):
        lead = f"Energies and forces of {data}: evaluation of all frames."
        return lead, [("data", data), ("data of the training", run), ("trained on", seen)]
    return f"Energies and forces of {data.split.name}: training and evaluation.", [
        ("data", run),
        ("trained on", seen),
        ("frames", f"{len(data.train)} to train on, {len(data.validation)} for validation"),
        ("reference energies", reference_source(data, config)),
    ]


_TUNED: Final = 0.1  # of the learning rate of a preset, for trained weights


def _first(config: PotentialRunConfig) -> TrainedPotential | None:
    """Return the potential to start from; None for weights drawn at random."""
    if not config.start_from:
        return None
    first = TrainedPotential.load(config.start_from)
    check_sizes(first.model, config)
    return first


_DATA = "DIR|FILE"
_KEYS = (
    *(
        Argument(f"--{label}-key", f"what .xyz files call {what}, by default the usual names",
                 metavar="KEY")
        for label, what in (("energy", "energies"), ("forces", "forces"), ("stress", "stresses"))
    ),
    Argument("--units", "of .xyz files, such as 'hartree bohr', by default eV and angstrom",
             metavar="UNITS"),
)  # fmt: skip


class InteratomicPotential(Task[PotentialRunConfig, PotentialData, TrainedPotential]):
    """Learn energies and forces of atoms with a message-passing potential.

    Examples
    --------
    >>> InteratomicPotential().name
    'potential'
    """

    help = "learn energies and forces of atoms"
    example_data = "rmd17 --set ethanol"
    data_remedy = "a folder of frames, an archive, or a file .xyz or .npz"
    train_arguments = (
        Argument("--data", "rMD17, mlearn, QM9, 3BPA, or train*.xyz and test*.xyz", metavar=_DATA),
        Argument("--set", "which set of several", metavar="NAME", dest="subset"),
        Argument("--validation", "held-out training frames", positive, metavar="N", unit="frames"),
        Argument(
            "--energy-weight", "weight of (eV/atom)^2", number, metavar="X", unit="of (eV/atom)^2"
        ),
        Argument("--forces-weight", "weight of (eV/A)^2", number, metavar="X", unit="of (eV/A)^2"),
        Argument(
            "--stress-weight", "weight of (eV/A^3)^2", number, metavar="X", unit="of (eV/A^3)^2"
        ),
        Argument(
            "--huber-delta",
            "Huber's loss: errors above X count linearly; 0: squares",
            number,
            metavar="X",
            unit="eV/atom, eV/A, eV/A^3",
        ),
        *(
            Argument(
                f"--{name}-weight",
                f"weight of ({unit})^2; above 0, {name} is an output",
                number,
                metavar="X",
                unit=f"of ({unit})^2",
            )
            for name, unit in (("dipole", "e A/atom"), ("polarizability", "A^3/atom"))
        ),
        *_KEYS,
        Argument(
            "--start-from",
            "fine-tune the potential of this checkpoint, with a tenth of the learning rate",
            metavar="FILE",
        ),
        Argument(
            "--freeze",
            "parts that stay as they are: embedding, radial, layers.0 to the last, body",
            words,
            metavar="PART,...",
        ),
        Argument(
            "--lora",
            "rank of updates of the weights; 0: train the weights",
            natural,
            metavar="RANK",
            unit="rank",
        ),
        Argument(
            "--replay",
            "earlier data, of which every epoch has some frames, too; keys and units are those of"
            " --start-from",
            metavar=_DATA,
        ),
        Argument("--replay-share", "share of these frames", number, metavar="X", unit="share"),
        Argument(
            "--heads",
            "levels of theory, with read-outs and references of their own",
            words,
            metavar="NAME,...",
        ),
        Argument("--head", "level of frames that do not name theirs", metavar="NAME"),
        Argument("--compile", "compile the training step first", constant=True),
        Argument("--product", "product of the messages", choices=get_args(ProductName)),
        Argument("--node", "nonlinearity of atoms", choices=get_args(NodeName)),
        Argument("--cutoff", "where interactions end", number, metavar="X", unit="angstrom"),
        Argument("--channels", "copies of every irrep", positive, metavar="N", unit="copies"),
        Argument("--lmax-edge", "largest degree of messages", natural, metavar="L", unit="degree"),
        Argument(
            "--lmax-hidden", "largest degree between layers", natural, metavar="L", unit="degree"
        ),
        Argument("--layers", "rounds of messages", positive, metavar="N", unit="rounds"),
        Argument("--correlation", "highest power of sums", positive, metavar="N", unit="power"),
        Argument(
            "--inputs",
            "entries of frames that energies depend on: charge, spin (default: none)",
            words,
            metavar="NAME,...",
        ),
        Argument("--zbl", "add the repulsion of nuclei at short distances", constant=True),
    )
    predict_arguments = (
        Argument(
            "--head",
            "level of theory of frames that do not name theirs (default: as in training)",
            metavar="NAME",
        ),
    )
    evaluate_arguments = (
        Argument(
            "--data",
            "all frames of it; by default validation and test frames of the training",
            metavar=_DATA,
        ),
        *_KEYS,
        Argument(
            "--set",
            "which set of several, by default that of the training",
            metavar="NAME",
            dest="subset",
        ),
        ALLOW_TRAINED,
    )
    measures = {  # noqa: RUF012
        "validation_force_mae": "validation force MAE {value:.2f} meV/A",
        "validation_energy_mae": "validation energy MAE {value:.2f} meV/atom",
        "validation_dipole_mae": "validation dipole MAE {value:.2f} me A",
        "validation_polarizability_mae": "validation polarizability MAE {value:.2f} 1e-3 A^3",
        "replay_force_mae": "force MAE {value:.2f} meV/A on validation frames of the replayed set",
        "replay_energy_mae": "energy MAE {value:.2f} meV/atom on these",
    }
    writes_report = True
    files = "frames as .xyz, .extxyz, .npz, .traj, .cif, .vasp, or in any format of ASE"
    suffixes = (".xyz", ".extxyz", ".npz", ".traj", ".cif", ".vasp")
    writes_files = True
    formats = FORMATS
    written = tuple(f".predicted.{form}" for form in FORMATS)
    trained_type = TrainedPotential

    def complete_options(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        minutes, epochs = options.get("minutes"), options.get("epochs")
        if minutes and epochs is None:
            return {**options, "epochs": _MANY}
        if epochs is not None and minutes is None:
            return {**options, "minutes": 0.0}
        return options

    def configure(
        self,
        output: Path,
        options: Mapping[str, Any],
        *,
        file: Path | None = None,
        resume: bool = False,
        overwrite: bool = False,
    ) -> RunConfig:
        if options.get("replay"):
            options = {**options, "replay": self.resolve_data(options["replay"])}
        if options.get("start_from"):
            given = {name: value for name, value in options.items() if value is not None}
            given["start_from"] = str(Path(given["start_from"]).resolve())
            if not (resume and self.folder(output).is_used()):
                run = TrainedPotential.load(given["start_from"])
                first = run.model.config
                rate = POTENTIAL_PRESETS["default"].recipe.learning_rate * _TUNED
                sizes = {name: getattr(first, name) for name in SIZES}
                sizes |= {f"{name}_weight": run.config.outputs.get(name, 0.0) for name in DEGREES}
                sizes["inputs"] = [name for name in USUAL_STATE if getattr(first, f"{name}s")]
                # sizes of a file are checked as those of options
                given = ({} if file else {**sizes, "learning_rate": rate}) | given
            options = given
        return super().configure(output, options, file=file, resume=resume, overwrite=overwrite)

    def load(self, config: PotentialRunConfig) -> PotentialData:
        _first(config)  # its errors come before the data are read
        return load_frames(config)

    def describe(self, config: PotentialRunConfig, data: PotentialData) -> str:
        tests = sum(map(len, data.split.tests.values()))
        remark = f", {data.split.remark}" if data.split.remark else ""
        begin = f"from {config.start_from}: " if config.start_from else ""
        if data.replay is not None:
            begin += f"with replay of {len(data.replay.train)} frames of {data.replay.split.name}: "
        number = len(data.train) - len(data.train.lacking("stress"))
        stresses = f" (stresses in {number} training frames)" if config.stress_weight else ""
        return (
            f"{begin}{data.split.name}, {len(data.train)} training, {len(data.validation)} "
            f"validation and {tests or 'no'} test frames{stresses}{remark}, reference energies of "
            f"{reference_source(data, config)}, product {config.product}, "
            f"{config.preset} preset"
        )

    def plan(
        self, config: PotentialRunConfig, data: PotentialData, model: nn.Module | None = None
    ) -> FitPlan:
        if not config.heads:
            check_levels(data)
        build = partial(AtomicSource.of_frames, cutoff=config.cutoff, heads=config.heads)
        new = build(data.train, head=config.head)
        first = None if model is not None else _first(config)
        learned, new = begin(config, data, new, model, first)
        if isinstance(learned, (Heads, MessagePassingPotential)):
            for frames in (data.train, data.validation):
                check_known(frames, learned.config)
                check_moments(frames, config.outputs)
        train = [new]
        sources = {"validation": build(data.validation, head=config.head)}
        if data.replay is not None:
            last = config.heads[-1] if config.heads else ""
            old = build(data.replay.train, head=last)
            train.append(old)
            new = ReplayingSource(
                new.parts, new.frames, new.earlier, old=old, share=config.replay_share
            )
            sources["replay"] = build(data.replay.validation, head=last)
        loss = EnergyForcesStress.of(config)
        objective: Objective = CompiledObjective(loss) if config.compile else loss
        evaluate = partial(_evaluate, sources, bool(config.forces_weight))
        novelty = partial(fit_uncertainty, train, list(sources.values()))
        return FitPlan(config, learned, (), new, objective, evaluate, novelty=novelty)

    def summarize(self, trained: TrainedPotential) -> list[str]:
        lines, last, config = super().summarize(trained), trained.history[-1], trained.config
        forces, energy = (last.get(f"validation_{name}_mae") for name in ("force", "energy"))
        attends = 0 < config.energy_weight < config.forces_weight
        if attends and forces is not None and energy is not None and energy > forces:
            lines.append(
                "note: energies lag behind forces: a larger --energy-weight than "
                f"{config.energy_weight:g} improves them, such as {config.forces_weight:g}"
            )
        return lines

    def evaluate(self, trained: TrainedPotential, options: argparse.Namespace) -> EvaluationOutput:
        from equigeo.report import render_potential_report  # plotly, which others do without

        config = trained.config
        keys = {f"{label}_key": getattr(options, f"{label}_key") for label in LABELS}
        changes = {**keys, "units": options.units}
        config = replace(config, **{name: value for name, value in changes.items() if value})
        subset = config.subset if options.subset is None else options.subset
        given = config.data if options.data is None else options.data
        path, own = Path(given).resolve(), Path(config.data).resolve()
        if own not in (path, *path.parents):  # units of the training are those of its files
            config = replace(config, units=options.units or "")
        if subset == config.subset and path == own:
            data = load_frames(config)
            evaluation = evaluate_potential(trained, data)
            results = summarize_potential(trained, evaluation, data, options.command_line)
        else:
            sets = _every_frame(config, given, "" if options.subset is None else subset, keys)
            evaluation = evaluate_frames(trained, sets)
            name = f"{given} {options.subset or ''}".strip()
            results = summarize_potential(trained, evaluation, name, options.command_line)
        seen = describe_trained_on(
            evaluation.trained_on, evaluation.num_frames, "frames", allowed=options.allow_trained
        )
        text = f"{potential_table(evaluation)}\n\n{seen}"
        return EvaluationOutput(text, evaluation.to_dict(), render_potential_report(results))

    def predict(
        self, trained: TrainedPotential, path: Path, top: int = 1, *, view: bool = False
    ) -> FilePrediction:
        if view:
            raise ValueError("--view shows shapes; a potential has none")
        if top != 1:
            raise ValueError("--top ranks classes; a potential has none")
        frames = trained.predict_frames(_read(path))
        files = format_predictions(frames, path)
        number = f"{len(frames)} frame{'s' if len(frames) > 1 else ''}"
        energies = [frame.energy for frame in frames if frame.energy is not None]
        summary = f"{number}, energies {min(energies):.6f} to {max(energies):.6f} eV"
        return FilePrediction(path, [], "", files, summary=summary)


def _every_frame(
    config: PotentialRunConfig, data: str, subset: str, asked: Mapping[str, str | None]
) -> Mapping[str, AtomicFrames]:
    """Load all frames of other data; raise if a requested label is missing."""
    keys = {label: getattr(config, f"{label}_key") for label in LABELS}
    keys["units"] = config.units
    if Path(data).suffix.lower() == ".npz":
        keys = {}  # those of the training do not apply
    sets = load_every_frame(data, subset, **keys)
    for name, key in asked.items():
        if key and not any(key in frames.keys for frames in sets.values()):
            found = next(iter(sets.values())).found_keys
            raise ValueError(
                f"{data}: no frame has {key!r:.80} of --{name.replace('_', '-')}{found}"
            )
    return sets


def _read(path: Path) -> AtomicFrames:
    if path.is_dir():
        raise ValueError(f"{path}: is a folder, expected a file of frames")
    if path.suffix.lower() == ".npz":
        (frames,) = load_every_frame(path).values()  # in their order
        return frames
    return read_structures(path)

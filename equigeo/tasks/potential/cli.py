"""Command-line task for interatomic potentials."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from torch import nn

from equigeo._text import printable
from equigeo.datasets import AtomicFrames
from equigeo.datasets.atoms.atomic_split import load_every_frame
from equigeo.datasets.atoms.read_extxyz import read_structures
from equigeo.potentials.config import NodeName, ProductName
from equigeo.tasks.arguments import Argument, natural, number, positive
from equigeo.tasks.evaluation_output import (
    ALLOW_TRAINED,
    EvaluationOutput,
    describe_trained_on,
)
from equigeo.tasks.file_prediction import FilePrediction
from equigeo.tasks.potential.config import _MANY, PotentialRunConfig
from equigeo.tasks.potential.data import PotentialData, load_frames
from equigeo.tasks.potential.evaluate import (
    PotentialEvaluation,
    evaluate_frames,
    evaluate_potential,
)
from equigeo.tasks.potential.report import summarize_potential
from equigeo.tasks.potential.train import plan_fit, reference_source
from equigeo.tasks.potential.trained import FORMATS, TrainedPotential, format_predictions
from equigeo.tasks.task import Task
from equigeo.training.loop.fit_plan import FitPlan

_DATA = "DIR|FILE"
_LABELS = ("energy", "forces", "stress")
_KEYS = tuple(
    Argument(f"--{label}-key", f"what .xyz files call {what}, by default the usual names",
             metavar="KEY")
    for label, what in (("energy", "energies"), ("forces", "forces"), ("stress", "stresses"))
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
        Argument("--validation", "training frames put aside", positive, metavar="N", unit="frames"),
        Argument(
            "--energy-weight", "weight of (eV/atom)^2", number, metavar="X", unit="of (eV/atom)^2"
        ),
        Argument("--forces-weight", "weight of (eV/A)^2", number, metavar="X", unit="of (eV/A)^2"),
        Argument(
            "--stress-weight", "weight of (eV/A^3)^2", number, metavar="X", unit="of (eV/A^3)^2"
        ),
        *_KEYS,
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
    }
    writes_report = True
    files = "frames as .xyz, .extxyz, .npz, .traj, .cif, .vasp, or in any format of ASE"
    suffixes = (".xyz", ".extxyz", ".npz", ".traj", ".cif", ".vasp")
    writes_files = True
    formats = FORMATS
    written = tuple(f".predicted.{form}" for form in FORMATS)
    trained_type = TrainedPotential

    def complete_options(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Lift the preset's limit on minutes or epochs if only the other one is given."""
        minutes, epochs = options.get("minutes"), options.get("epochs")
        if minutes and epochs is None:
            return {**options, "epochs": _MANY}
        if epochs is not None and minutes is None:
            return {**options, "minutes": 0.0}
        return options

    def load(self, config: PotentialRunConfig) -> PotentialData:
        """Load frames and split off validation frames."""
        return load_frames(config)

    def describe(self, config: PotentialRunConfig, data: PotentialData) -> str:
        """Return the numbers of frames and the name of the model."""
        tests = sum(map(len, data.split.tests.values()))
        remark = f", {data.split.remark}" if data.split.remark else ""
        return (
            f"{data.split.name}, {len(data.train)} training, {len(data.validation)} validation and "
            f"{tests or 'no'} test frames{_stresses(config, data)}{remark}, reference energies of "
            f"{reference_source(data)}, product {config.product}, {config.preset} preset"
        )

    def plan(
        self, config: PotentialRunConfig, data: PotentialData, model: nn.Module | None = None
    ) -> FitPlan:
        """Build the potential and list edges."""
        return plan_fit(config, data, model)

    def summarize(self, trained: TrainedPotential) -> list[str]:
        """Return the measures of a finished run, with a remark if energies lag behind forces."""
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
        """Compute errors per set, and a report with parity plots."""
        from equigeo.report import render_potential_report  # plotly, which others do without

        config = trained.config
        keys = {f"{label}_key": getattr(options, f"{label}_key") for label in _LABELS}
        config = replace(config, **{name: key for name, key in keys.items() if key})
        subset = config.subset if options.subset is None else options.subset
        given = config.data if options.data is None else options.data
        if subset == config.subset and Path(given).resolve() == Path(config.data).resolve():
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
        """Compute energies, forces and stresses of every frame of a file."""
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


def _stresses(config: PotentialRunConfig, data: PotentialData) -> str:
    """Return the number of frames with a stress if stresses are learned."""
    if not config.stress_weight:
        return ""
    number = len(data.train) - len(data.train.lacking("stress"))
    return f" (stresses in {number} training frames)"


def _every_frame(
    config: PotentialRunConfig, data: str, subset: str, asked: Mapping[str, str | None]
) -> Mapping[str, AtomicFrames]:
    """Load all frames of other data; raise if a requested label is missing."""
    keys = {label: getattr(config, f"{label}_key") for label in _LABELS}
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


def potential_table(evaluation: PotentialEvaluation) -> str:
    """Format errors per set of frames, with one unit of energies per column."""
    names = [name for row in evaluation.sets.values() for name in row if name != "atoms"]
    columns = list(dict.fromkeys(names))
    width = max(3, *(len(printable(name)) for name in evaluation.sets))
    lines = [f"{'set':<{width}}  " + "  ".join(columns)]
    for name, row in evaluation.sets.items():
        cells = [_cell(row.get(column), len(column)) for column in columns]
        lines.append(f"{printable(name):<{width}}  " + "  ".join(cells))
    if evaluation.remark:
        lines += ["", f"note: {evaluation.remark}"]
    return "\n".join(lines)


def _cell(value: float | None, width: int) -> str:
    if value is None:
        return f"{'-':>{width}}"
    return f"{value:{width}d}" if isinstance(value, int) else f"{value:{width}.2f}"

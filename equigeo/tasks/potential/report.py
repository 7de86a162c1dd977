"""Data of a report on a potential."""

from __future__ import annotations

from typing import Any

from equigeo.tasks.evaluation_output import number_trained_on, run_facts
from equigeo.tasks.potential.config import PotentialRunConfig
from equigeo.tasks.potential.data import PotentialData
from equigeo.tasks.potential.evaluate import PotentialEvaluation
from equigeo.tasks.potential.train import reference_source
from equigeo.tasks.potential.trained import TrainedPotential


def summarize_potential(
    trained: TrainedPotential,
    evaluation: PotentialEvaluation,
    data: PotentialData | str,  # training data if they were evaluated, else the name of others
    command: str,  # that produced the results
) -> dict[str, Any]:
    """Collect the input of ``equigeo.report.render_potential_report``, as JSON types."""
    config, model = trained.config, trained.model.config
    weights = (config.energy_weight, config.forces_weight, config.stress_weight)
    lead, facts = _subject(config, data, evaluation)
    found, *others = run_facts(
        trained,
        config,
        f"product {model.product}, node {model.node}, {model.channels} channels, degrees up to "
        f"{model.lmax_edge} of messages and {model.lmax_hidden} of features, {model.layers} "
        f"layers, cutoff {model.cutoff:g} A, elements {trained.species}",
    )
    loss = "{:g} energies per atom, {:g} forces, {:g} stresses".format(*weights)
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
        ("reference energies", reference_source(data)),
    ]

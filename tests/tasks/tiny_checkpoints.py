"""A valid checkpoint of every kind of model, as small as they are built; none is trained."""

from dataclasses import replace
from typing import Any

import torch

from equigeo.affine import (
    AffinePointNet,
    AffinePointNetConfig,
    AffineResNet,
    AffineResNetConfig,
    HeadConfig,
    SamplesConfig,
    StagesConfig,
)
from equigeo.mds import (
    AttentionModel,
    AttentionModelConfig,
    InvariantPointNet,
    InvariantPointNetConfig,
)
from equigeo.mesh import ClassifierConfig, PrimalDualClassifier
from equigeo.potentials import (
    AtomicBatch,
    LastLayerUncertainty,
    MessagePassingPotential,
    PotentialConfig,
)
from equigeo.tasks.affnist import ImageConfig
from equigeo.tasks.affnist.task import PlainCNN, PlainCNNConfig
from equigeo.tasks.mesh_classification import MeshConfig
from equigeo.tasks.mesh_dynamics import DynamicsConfig, DynamicsModel, DynamicsModelConfig
from equigeo.tasks.pointcloud import PointConfig
from equigeo.tasks.pointcloud.task import PlainPointNet
from equigeo.tasks.potential import PotentialRunConfig
from equigeo.tasks.tsp import TourConfig
from equigeo.training import Checkpoint, RunConfig
from equigeo.training.novelty import Novelty
from equigeo.training.process import isolated_streams

_CLASSES = ("ball", "rod", "shell")
_SETTINGS = {"widths": [4, 8], "hidden": [4]}


def tiny_checkpoints() -> dict[str, Checkpoint]:
    """Checkpoints by task and model."""
    with isolated_streams():
        return {name: _checkpoint(*parts) for name, parts in _parts().items()}


def _parts() -> dict[str, tuple[str, Any, tuple[str, ...], RunConfig]]:
    mesh = ClassifierConfig(
        3, channels=(4, 4), keep=(0.7, None), heads=2, norm="group", groups=2, hidden=4
    )
    image = AffineResNetConfig(
        3,
        SamplesConfig(count=4),
        stages=StagesConfig(channels=(4,), pool=(True,)),
        head=HeadConfig(features=4),
    )
    affine = AffinePointNetConfig(3, centers=(8, 4), neighbors=(4, 4), channels=(4, 4, 4), rank=2)
    mds = InvariantPointNetConfig(3, "pointnet", dict(_SETTINGS))
    plain = InvariantPointNetConfig(3, "pointnet", dict(_SETTINGS), group=None)
    clouds = PointConfig("clouds", preset="pointnet", model="mds")
    potential = MessagePassingPotential(
        PotentialConfig((1, 8), channels=2, lmax_edge=1, radial_basis=4, radial_hidden=(4,))
    )
    dynamics = DynamicsModel(DynamicsModelConfig(scalars=4, vectors=2, heads=2, blocks=1))
    return {
        "mesh": (
            "mesh-classification", PrimalDualClassifier(mesh), _CLASSES, MeshConfig("builtin")
        ),
        "affnist": ("affnist", AffineResNet(image), _CLASSES, ImageConfig("mnist")),
        "affnist cnn": (
            "affnist", PlainCNN(PlainCNNConfig(3, (2, 4), 1)), _CLASSES,
            ImageConfig("mnist", preset="cnn"),
        ),
        "pointcloud affine": (
            "pointcloud", AffinePointNet(affine), _CLASSES, PointConfig("clouds")
        ),
        "pointcloud mds": ("pointcloud", InvariantPointNet(mds), _CLASSES, clouds),
        "pointcloud plain": (
            "pointcloud", PlainPointNet(plain), _CLASSES, replace(clouds, model="plain")
        ),
        "tsp": (
            "tsp", AttentionModel(AttentionModelConfig("mds", 8, 2, 1, 8)), (), TourConfig()
        ),
        "potential": ("potential", potential, (), PotentialRunConfig("frames")),
        "dynamics": ("mesh-dynamics", dynamics, (), DynamicsConfig()),
    }  # fmt: skip


def _checkpoint(task: str, model: Any, classes: tuple[str, ...], config: RunConfig) -> Checkpoint:
    described = {
        "model": model.config.to_dict(),
        "classes": list(classes),
        "train": config.to_dict(),
        "version": "0",
    }
    history = [{"epoch": 1, "loss": 0.5, "train_accuracy": 1.0, "seconds": 2.0}]
    training, novelty = {"history": history}, _novelty(model)
    return Checkpoint(task, described, dict(model.state_dict()), training, novelty)


def _novelty(model: Any) -> dict[str, Any]:
    if isinstance(model, MessagePassingPotential):
        pair = torch.tensor([1, 8]), torch.eye(2, 3), None, False
        batch = AtomicBatch.from_systems([pair], model.config.cutoff)
        labelled = batch, torch.ones(1), torch.ones(2, 3)
        return LastLayerUncertainty.fit(model, [batch], [labelled]).state_dict()
    if not hasattr(model, "embedding_width"):
        return {}
    found = Novelty.fit(torch.randn(30, model.embedding_width), torch.arange(30) % len(_CLASSES))
    return {} if found is None else found.state_dict()

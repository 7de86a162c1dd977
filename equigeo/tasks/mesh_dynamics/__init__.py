"""Dynamics on meshes: the next state of vertices, learned from simulated trajectories."""

from equigeo.tasks.mesh_dynamics.model import DynamicsModel, DynamicsModelConfig
from equigeo.tasks.mesh_dynamics.task import (
    DYNAMICS_RECIPES,
    DynamicsConfig,
    MeshDynamics,
    TrainedDynamics,
    evaluate_mesh_dynamics,
)

__all__ = [
    "DYNAMICS_RECIPES",
    "DynamicsConfig",
    "DynamicsModel",
    "DynamicsModelConfig",
    "MeshDynamics",
    "TrainedDynamics",
    "evaluate_mesh_dynamics",
]
__dir__ = __all__.copy

"""Dynamics on meshes: the next state of vertices, learned from simulated trajectories."""

from equigeo.tasks.mesh_dynamics.model import DynamicsModel, DynamicsModelConfig, SurfaceStates
from equigeo.tasks.mesh_dynamics.task import (
    DYNAMICS_RECIPES,
    DynamicsConfig,
    MeshDynamics,
    TrainedDynamics,
    evaluate_mesh_dynamics,
    rollout,
)

__all__ = [
    "DYNAMICS_RECIPES",
    "DynamicsConfig",
    "DynamicsModel",
    "DynamicsModelConfig",
    "MeshDynamics",
    "SurfaceStates",
    "TrainedDynamics",
    "evaluate_mesh_dynamics",
    "rollout",
]
__dir__ = __all__.copy

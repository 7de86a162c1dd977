"""Regression on triangle meshes: numbers per mesh, face or vertex."""

from equigeo.tasks.mesh_regression.task import (
    REGRESSION_RECIPES,
    MeshRegression,
    MeshRegressionConfig,
    TrainedMeshRegressor,
    evaluate_mesh_regressor,
)

__all__ = [
    "REGRESSION_RECIPES",
    "MeshRegression",
    "MeshRegressionConfig",
    "TrainedMeshRegressor",
    "evaluate_mesh_regressor",
]
__dir__ = __all__.copy

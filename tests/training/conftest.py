from tests.tasks.mesh_run import config, dataset, small_model

__all__ = ["config", "dataset", "small_model"]

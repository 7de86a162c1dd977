from tests.tasks.tiny_data import config, dataset

__all__ = ["config", "dataset"]

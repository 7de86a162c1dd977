from tests.cli.finished_run import checkpoint, data, run_folder

__all__ = ["checkpoint", "data", "run_folder"]

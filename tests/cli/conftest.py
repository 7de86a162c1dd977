from tests.cli.finished_run import checkpoint, data, refused, run_folder

__all__ = ["checkpoint", "data", "refused", "run_folder"]

from tests.datasets.registry.server import server

__all__ = ["server"]

"""Repair of meshes as files hold them: from a ``FileMesh`` to a ``TriangleMesh``."""

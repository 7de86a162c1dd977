"""Meshes with labelled faces, edges or vertices, and readers of folders."""

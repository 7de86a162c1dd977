"""Meshes with labeled faces, edges or vertices, and readers of folders."""

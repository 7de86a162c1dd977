"""Meshes whose faces, edges or vertices are labelled: what holds them, and readers of folders."""

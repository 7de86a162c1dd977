"""Meshes: training, evaluation and prediction by file."""

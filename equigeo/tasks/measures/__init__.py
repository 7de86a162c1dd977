"""Measures and transformed copies for the evaluations of several tasks."""

"""The attention model of tours through points."""

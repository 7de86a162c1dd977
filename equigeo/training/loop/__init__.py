"""Training loop on Lightning, which is imported only here and only when a run starts."""

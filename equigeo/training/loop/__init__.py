"""The loop on Lightning, which this folder alone imports, and only where a run starts."""

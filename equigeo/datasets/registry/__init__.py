"""Known data sets: where they come from, how they are fetched, converted, verified and opened."""

"""Data, measures and texts that several tasks share."""

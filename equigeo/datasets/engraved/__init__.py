"""Generated cubes with an icon engraved in one side."""

"""Generated articulated animals and objects as closed surfaces."""

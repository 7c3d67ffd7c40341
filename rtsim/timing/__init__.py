"""Keeping up with the wall: pacing, overruns, scheduling requests, the timing certificate."""

"""Real time: pacing, overrun policies, scheduling and the timing certificate."""

"""Real time: pacing, overrun policies, scheduling requests, the timing certificate."""

"""Real time: pacing, overrun policies, scheduling requests, and the timing certificate."""

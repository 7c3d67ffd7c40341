"""FlightGear as the outside window of a run: positions and attitudes by its native protocol."""

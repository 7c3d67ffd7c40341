"""Debug a controller at a step of a recorded run, with the inputs and the memory of that step."""

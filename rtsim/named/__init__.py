"""Plants and controllers as classes, whose methods use signals by name."""

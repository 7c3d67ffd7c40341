"""What is drawn: a scene takes a state and a surface, and knows nothing of processes or devices."""

"""NASA's F-16: plant, trim, linearisation, control law, guidance and check cases."""

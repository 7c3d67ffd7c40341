"""NASA's F-16: plant, trim, linearisation, controller, guidance and check cases."""

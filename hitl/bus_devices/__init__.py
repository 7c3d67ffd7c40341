"""I2C and SPI devices that are simulated at the buses of emulated boards."""

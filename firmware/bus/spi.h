/* An SPI bus in mode 0 at 1 MHz with one device, whose select pin is low during a transfer. */
#ifndef RTSIM_SPI_H
#define RTSIM_SPI_H

#include <stdint.h>

void spi_begin(void);

/* Exchanges `size` bytes: the bytes of `data` are sent, and replaced by those that arrive. */
void spi_transfer(uint8_t *data, uint8_t size);

#endif

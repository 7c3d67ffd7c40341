#include "mcp3008.h"

#include "spi.h"

uint16_t mcp3008_read(uint8_t channel)
{
    uint8_t data[3] = {1, (uint8_t)(0x80 | channel << 4), 0}; /* start bit; single-ended */
    spi_transfer(data, 3);
    return (uint16_t)((data[1] & 3) << 8 | data[2]);
}

/* A driver of the MCP3008 (DS21295D, section 6.1). */
#ifndef RTSIM_MCP3008_H
#define RTSIM_MCP3008_H

#include <stdint.h>

/* Returns the code of the channel 0 to 7 against ground, 0 to 1023. */
uint16_t mcp3008_read(uint8_t channel);

#endif

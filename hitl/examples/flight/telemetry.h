/* A frame of telemetry: 14 numbers in text, as a ground station reads them, and a checksum. */
#ifndef TELEMETRY_H
#define TELEMETRY_H

#include <stdint.h>

#define TELEMETRY_NUMBERS 14

typedef struct {
    float values[TELEMETRY_NUMBERS];
} telemetry_values;

/* Write the frame to the buffer, and return its checksum (CRC-16-CCITT). */
uint16_t telemetry_step(const telemetry_values *in);

#endif

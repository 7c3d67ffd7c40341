#include "telemetry.h"

#define DIGITS 8

static char frame[TELEMETRY_NUMBERS * (DIGITS + 2)];

/* CRC-16-CCITT, bit by bit. */
static uint16_t checked(uint16_t crc, uint8_t byte)
{
    uint8_t k;

    crc ^= (uint16_t)((uint16_t)byte << 8);
    for (k = 0; k < 8; k++)
        crc = (uint16_t)((crc & 0x8000u) ? (crc << 1) ^ 0x1021u : crc << 1);
    return crc;
}

/* Write a number with three decimals, and a comma; return the place after it. */
static char *written(char *to, float value)
{
    int32_t rest = (int32_t)(value * 1000.0f);
    int8_t k;

    *to++ = rest < 0 ? '-' : '+';
    if (rest < 0)
        rest = -rest;
    for (k = DIGITS - 1; k >= 0; k--) {
        to[k] = (char)('0' + rest % 10);
        rest /= 10;
    }
    to[DIGITS] = ',';
    return to + DIGITS + 1;
}

uint16_t telemetry_step(const telemetry_values *in)
{
    char *to = frame;
    const char *from;
    uint16_t crc = 0xffffu;
    uint8_t k;

    for (k = 0; k < TELEMETRY_NUMBERS; k++)
        to = written(to, in->values[k]);
    for (from = frame; from < to; from++)
        crc = checked(crc, (uint8_t)*from);
    return crc;
}

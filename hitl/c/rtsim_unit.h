/* What a generated unit needs: type checks for static assertions, and exact conversions. */
#ifndef RTSIM_UNIT_H
#define RTSIM_UNIT_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

extern const unsigned long long rtsim_schema;
extern const unsigned rtsim_inputs, rtsim_outputs, rtsim_parameters;

int rtsim_initialize(const double *p);
int rtsim_step(const double *u, double *y);
void rtsim_terminate(void);

#define RTSIM_IS_FLOAT(x) _Generic((x), float: 1, double: 1, long double: 1, default: 0)
#define RTSIM_IS_INT(x)                                                                   \
    _Generic((x), char: (char)-1 < 0, signed char: 1, short: 1, int: 1, long: 1, long long: 1, \
             default: 0)
#define RTSIM_IS_UINT(x)                                                                     \
    _Generic((x), char: (char)-1 > 0, unsigned char: 1, unsigned short: 1, unsigned int: 1, \
             unsigned long: 1, unsigned long long: 1, default: 0)
#define RTSIM_IS_BOOL(x) _Generic((x), _Bool: 1, char: 1, signed char: 1, unsigned char: 1, default: 0)

#define RTSIM_BAD_FLOAT64(v) 0
#define RTSIM_BAD_FLOAT32(v) ((v) > (double)FLT_MAX || (v) < -(double)FLT_MAX)
#define RTSIM_BAD_BOOL(v) ((v) != (v))

/* The greatest and least doubles that convert to the type. */
#define RTSIM_INT8_LOW -128.0
#define RTSIM_INT8_HIGH 127.0
#define RTSIM_INT16_LOW -32768.0
#define RTSIM_INT16_HIGH 32767.0
#define RTSIM_INT32_LOW -2147483648.0
#define RTSIM_INT32_HIGH 2147483647.0
#define RTSIM_INT64_LOW -9223372036854775808.0
#define RTSIM_INT64_HIGH 9223372036854774784.0
#define RTSIM_UINT8_LOW 0.0
#define RTSIM_UINT8_HIGH 255.0
#define RTSIM_UINT16_LOW 0.0
#define RTSIM_UINT16_HIGH 65535.0
#define RTSIM_UINT32_LOW 0.0
#define RTSIM_UINT32_HIGH 4294967295.0
#define RTSIM_UINT64_LOW 0.0
#define RTSIM_UINT64_HIGH 18446744073709549568.0

/* An integer beyond 2^53 that a double may not hold must not pass as its neighbour. */
#define RTSIM_INEXACT(x) \
    ((x) > 9007199254740992 || ((x) < 0 && (x) < -9007199254740992))

/* real = raw * scale + bias, rounded to the nearest raw (half to even); 1 where it does not fit. */
static inline int rtsim_raw(double real, double scale, double bias, double low, double high,
                            int saturate, double *raw)
{
    double r = nearbyint((real - bias) / scale);
    if (r != r) return 1;
    if (r < low || r > high) {
        if (!saturate) return 1;
        r = r < low ? low : high;
    }
    *raw = r;
    return 0;
}

#endif

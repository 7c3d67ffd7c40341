/* What a generated unit needs on the host beside rtsim_checks.h: exact conversions.
 *
 * Its names begin with rtsim too, and it includes next to nothing.
 */
#ifndef RTSIM_UNIT_H
#define RTSIM_UNIT_H

#include <float.h>

#ifdef __cplusplus
#include "rtsim_checks_cpp.h"
extern "C" {
#else
#include "rtsim_checks.h"
#endif

enum { RTSIM_THREW = 0x20000000, RTSIM_THROWN_BYTES = 256 }; /* hitl/worker/refusal.py has it too */

extern const unsigned long long rtsim_schema;
extern const unsigned rtsim_inputs, rtsim_outputs, rtsim_parameters;
extern double rtsim_own[]; /* room for rtsim_parameters, at least one */

extern long long rtsim_time_ns; /* simulated time of the next call, set by the caller */
extern char rtsim_thrown[RTSIM_THROWN_BYTES]; /* what C++ code threw last, as text; "" before */

int rtsim_initialize(const double *p);
int rtsim_step(const double *u, double *y);
void rtsim_terminate(void);
#ifdef __cplusplus
}
#endif

/* 1 where a finite number would become an infinity. */
#define RTSIM_BAD_FLOAT32(v)                                      \
    ((v) >= -DBL_MAX && (v) <= DBL_MAX && !((float)(v) >= -FLT_MAX && (float)(v) <= FLT_MAX))
#define RTSIM_BAD_BOOL(v) ((v) != (v))

/* The NaN that says of a parameter: it keeps the value that the controller itself gave it. */
#define RTSIM_KEEP 0x7ff8727473696d21ULL
static inline int rtsim_kept(double x)
{
    unsigned long long bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits == RTSIM_KEEP;
}

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

/* 1 where no double holds the integer: it must not pass as its neighbour. */
static inline int rtsim_inexact_int64(rtsim_int64 x)
{
    return x > 9223372036854774784 || (rtsim_int64)(double)x != x;
}

static inline int rtsim_inexact_uint64(rtsim_uint64 x)
{
    return x > 18446744073709549568u || (rtsim_uint64)(double)x != x;
}

/* real = raw * scale + bias, rounded to the nearest raw (half to even); 1 where it does not fit. */
static inline int rtsim_raw(double real, double scale, double bias, double low, double high,
                            int saturate, double *raw)
{
    double r = __builtin_nearbyint((real - bias) / scale);
    if (r != r) return 1;
    if (r < low || r > high) {
        if (!saturate) return 1;
        r = r < low ? low : high;
    }
    *raw = r;
    return 0;
}

#endif

/* What a generated unit needs: type checks for static assertions, and exact conversions.
 *
 * It includes next to nothing, and its names begin with rtsim: a controller's own headers and
 * variables (index, y0, gamma, bool) must not meet others.
 */
#ifndef RTSIM_UNIT_H
#define RTSIM_UNIT_H

#include <float.h>

typedef __INT8_TYPE__ rtsim_int8;
typedef __INT16_TYPE__ rtsim_int16;
typedef __INT32_TYPE__ rtsim_int32;
typedef __INT64_TYPE__ rtsim_int64;
typedef __UINT8_TYPE__ rtsim_uint8;
typedef __UINT16_TYPE__ rtsim_uint16;
typedef __UINT32_TYPE__ rtsim_uint32;
typedef __UINT64_TYPE__ rtsim_uint64;
typedef float rtsim_float32;
typedef double rtsim_float64;
typedef _Bool rtsim_bool;

extern const unsigned long long rtsim_schema;
extern const unsigned rtsim_inputs, rtsim_outputs, rtsim_parameters;

int rtsim_initialize(const double *p);
int rtsim_step(const double *u, double *y);
void rtsim_terminate(void);

/* Of an object's address: that of a bit-field cannot be taken, and nothing is promoted. */
#define RTSIM_IS(x, type)                                                                    \
    _Generic(&(x), type *: 1, const type *: 1, volatile type *: 1, const volatile type *: 1, \
             default: 0)
#define RTSIM_IS_CONST(x)                                         \
    __builtin_types_compatible_p(__typeof__(&(x)), const __typeof__(x) *)
#define RTSIM_SAME(x, type) __builtin_types_compatible_p(__typeof__(x), type)
#define RTSIM_IS_NUMBER(x)                                                                     \
    (RTSIM_IS(x, _Bool) || RTSIM_IS(x, char) || RTSIM_IS(x, signed char) ||                    \
     RTSIM_IS(x, unsigned char) || RTSIM_IS(x, short) || RTSIM_IS(x, unsigned short) ||        \
     RTSIM_IS(x, int) || RTSIM_IS(x, unsigned) || RTSIM_IS(x, long) ||                         \
     RTSIM_IS(x, unsigned long) || RTSIM_IS(x, long long) || RTSIM_IS(x, unsigned long long) || \
     RTSIM_IS(x, float) || RTSIM_IS(x, double) || RTSIM_IS(x, long double))
#define RTSIM_POINTER(type) type *: 1, const type *: 1, volatile type *: 1
/* The value of an array is the address of its first element. */
#define RTSIM_IS_ADDRESS(x)                                                                    \
    _Generic((x), RTSIM_POINTER(_Bool), RTSIM_POINTER(char), RTSIM_POINTER(signed char),       \
             RTSIM_POINTER(unsigned char), RTSIM_POINTER(short), RTSIM_POINTER(unsigned short), \
             RTSIM_POINTER(int), RTSIM_POINTER(unsigned), RTSIM_POINTER(long),                 \
             RTSIM_POINTER(unsigned long), RTSIM_POINTER(long long),                           \
             RTSIM_POINTER(unsigned long long), RTSIM_POINTER(float), RTSIM_POINTER(double),   \
             RTSIM_POINTER(long double), default: 0)

/* 1 where a finite number would become an infinity. */
#define RTSIM_BAD_FLOAT32(v)                                      \
    ((v) >= -DBL_MAX && (v) <= DBL_MAX && !((float)(v) >= -FLT_MAX && (float)(v) <= FLT_MAX))
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

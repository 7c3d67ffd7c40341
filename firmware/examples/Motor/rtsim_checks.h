/* The C types by the interface file's names, and what the static assertions of a generated unit ask,
 * on the host and on a board.
 *
 * It includes nothing, and its names begin with rtsim: a controller's own headers and variables
 * (index, y0, gamma, bool) must not meet others.
 */
#ifndef RTSIM_CHECKS_H
#define RTSIM_CHECKS_H

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

#endif

/* The floating type of every controller here: -DRTSIM_REAL=float, or double where nothing is said. */
#ifndef RTSIM_REAL_H
#define RTSIM_REAL_H

#ifndef RTSIM_REAL
#define RTSIM_REAL double
#endif

typedef RTSIM_REAL rtsim_real;

/* RTSIM_REAL_C(0.1) is a constant of that type, as INT64_C is in stdint.h.  The suffix is pasted on,
 * not cast: a cast would round twice, to double and then to float. */
#define RTSIM_REAL_C_double(x) x
#define RTSIM_REAL_C_float(x) x##f
#define RTSIM_REAL_C_PASTED(type) RTSIM_REAL_C_##type
#define RTSIM_REAL_C_OF(type) RTSIM_REAL_C_PASTED(type)
#define RTSIM_REAL_C(x) RTSIM_REAL_C_OF(RTSIM_REAL)(x)

/* value kept within low and high; a NaN becomes high, as it does in the designs. */
static inline rtsim_real rtsim_limited(rtsim_real value, rtsim_real low, rtsim_real high)
{
    rtsim_real below = value < high ? value : high;
    return below > low ? below : low;
}

#endif

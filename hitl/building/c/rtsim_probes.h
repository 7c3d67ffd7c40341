/* Probes in C code under test: which way a condition went, and how far it was from the other way.
 *
 * hitl/stimuli/probes.py writes the calls, and puts this text in front of each source, so it includes
 * nothing, and its names begin with rtsim.
 */
#ifndef RTSIM_PROBES_H
#define RTSIM_PROBES_H

/* The branch `id` is "true", `id` + 1 is "false"; each function returns the outcome. */
int rtsim_probe(unsigned id, int outcome);
int rtsim_compare(unsigned id, int comparison, int outcome, double a, double b, int whole);
void rtsim_case(unsigned id, int taken, double distance);

/* Hazards: a divisor that is 0, an index or a shift outside of [0, count), a sum outside of its type.  A
 * count of 0 is not known, and 0 bits are no signed integer. */
void rtsim_divisor(unsigned id, double divisor);
void rtsim_below(unsigned id, double value, double count);
void rtsim_sum(unsigned id, int operation, int bits, double a, double b);

static inline __attribute__((unused)) double rtsim_number(int n, double x)
{
    (void)n;
    return x;
}
static inline __attribute__((unused)) double rtsim_no_number(int n, ...)
{
    (void)n;
    return 0.0;
}

/* A number as a double; 0 for what has no distance, such as a pointer. */
#define RTSIM_NUMBER(x)                                                                         \
    _Generic((x), _Bool: rtsim_number, char: rtsim_number, signed char: rtsim_number,           \
             unsigned char: rtsim_number, short: rtsim_number, unsigned short: rtsim_number,    \
             int: rtsim_number, unsigned: rtsim_number, long: rtsim_number,                     \
             unsigned long: rtsim_number, long long: rtsim_number,                              \
             unsigned long long: rtsim_number, float: rtsim_number, double: rtsim_number,       \
             long double: rtsim_number, default: rtsim_no_number)(0, (x))

/* 1 for a number that is not floating-point. */
#define RTSIM_WHOLE(x) _Generic((x), float: 0, double: 0, long double: 0, default: 1)

/* The bits of a signed integer without its sign; 0 for other types. */
#define RTSIM_BITS(x) \
    _Generic((x), int: 8 * (int)sizeof(int) - 1, long: 8 * (int)sizeof(long) - 1, long long: 63, default: 0)

/* The number of elements of an array; 0 for a pointer. */
#define RTSIM_COUNT(a)                                                                          \
    __builtin_choose_expr(__builtin_types_compatible_p(__typeof__(a), __typeof__(&(a)[0])), 0.0, \
                          (double)sizeof(a) / sizeof((a)[0]))

#endif

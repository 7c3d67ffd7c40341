/* Probes in C code under test: which way a condition went, and how far it was from the other way.
 *
 * hitl/stimuli/probes.py writes the calls, and puts this text in front of each source, so it includes
 * nothing, and its names begin with rtsim.
 */
#ifndef RTSIM_PROBES_H
#define RTSIM_PROBES_H

/* The branch `id` is "true", `id` + 1 is "false"; each function returns the outcome. */
#ifdef __cplusplus
extern "C" {
#endif
int rtsim_probe(unsigned id, int outcome);
int rtsim_compare(unsigned id, int comparison, int outcome, double a, double b, int whole);
void rtsim_case(unsigned id, int taken, double distance);

/* A call such as fmin: its result is `first`, the branch `id`, or the other operand.  Where both are equal,
 * neither is taken, as the result does not say which. */
void rtsim_choice(unsigned id, int first, double a, double b, int whole);

/* The chain of calls that leads to the function which is called next; that function sets it to 0. */
extern unsigned rtsim_site;

/* Hazards: a divisor that is 0, an index or a shift outside of [0, count), a sum, a difference, a product
 * or a quotient (operation 0 to 3) outside of its type.  A divisor that is no number is not `known`, nor is
 * a count of 0, and 0 bits are no signed integer. */
void rtsim_divisor(unsigned id, int known, double divisor);
void rtsim_below(unsigned id, double value, double count);
void rtsim_sum(unsigned id, int operation, int bits, double a, double b);
#ifdef __cplusplus
}

/* What is known about a type: it is a number or an enumeration, it is whole, and its bits with a sign. */
template <class T> struct rtsim_type { enum { number = __is_enum(T), whole = 1, bits = 0, width = 0 }; };
template <class T> struct rtsim_type<const T> : rtsim_type<T> {};
template <class T> struct rtsim_type<volatile T> : rtsim_type<T> {};
template <class T> struct rtsim_type<const volatile T> : rtsim_type<T> {};
template <class T> struct rtsim_type<T &> : rtsim_type<T> {};
template <class T> struct rtsim_type<T &&> : rtsim_type<T> {};
#define RTSIM_TYPE(T, is_whole, sign, least)                                                     \
    template <> struct rtsim_type<T> {                                                           \
        enum { number = 1, whole = is_whole, bits = sign ? 8 * (int)sizeof(T) - 1 : 0,           \
               width = 8 * (int)(sizeof(T) < sizeof(least) ? sizeof(least) : sizeof(T)) };       \
    };
RTSIM_TYPE(bool, 1, 0, int)
RTSIM_TYPE(char, 1, 0, int)
RTSIM_TYPE(signed char, 1, 0, int)
RTSIM_TYPE(unsigned char, 1, 0, int)
RTSIM_TYPE(short, 1, 0, int)
RTSIM_TYPE(unsigned short, 1, 0, int)
RTSIM_TYPE(int, 1, 1, int)
RTSIM_TYPE(unsigned, 1, 0, int)
RTSIM_TYPE(long, 1, 1, int)
RTSIM_TYPE(unsigned long, 1, 0, int)
RTSIM_TYPE(long long, 1, 1, int)
RTSIM_TYPE(unsigned long long, 1, 0, int)
RTSIM_TYPE(float, 0, 0, float)
RTSIM_TYPE(double, 0, 0, double)
RTSIM_TYPE(long double, 0, 0, long double)
template <bool number> struct rtsim_as { template <class T> static double of(const T &x) { return (double)x; } };
template <> struct rtsim_as<false> { template <class T> static double of(const T &) { return 0.0; } };
template <class T> struct rtsim_extent { enum { count = 0 }; };
template <class T, unsigned long n> struct rtsim_extent<T (&)[n]> { enum { count = n }; };
template <class T> inline double rtsim_number_of(const T &x) { return rtsim_as<rtsim_type<T>::number>::of(x); }
template <bool numbers> struct rtsim_result {
    template <class A, class B> static void report(unsigned id, int operation, const A &a, const B &b)
    {
        rtsim_sum(id, operation, rtsim_type<decltype(a + b)>::bits, (double)a, (double)b);
    }
};
template <> struct rtsim_result<false> {
    template <class A, class B> static void report(unsigned, int, const A &, const B &) {}
};
/* Enumerations and classes have no width: their operators can be functions. */
template <class A, class B> inline void rtsim_sum_of(unsigned id, int operation, const A &a, const B &b)
{
    rtsim_result<(rtsim_type<A>::width > 0 && rtsim_type<B>::width > 0)>::report(id, operation, a, b);
}
#define RTSIM_SUM(id, operation, operator, a, b) rtsim_sum_of(id, operation, a, b)
#define RTSIM_NUMBER(x) rtsim_number_of(x)
#define RTSIM_KNOWN(x) (rtsim_type<decltype((x))>::number)
#define RTSIM_WHOLE(x) (rtsim_type<decltype((x))>::whole)
#define RTSIM_BITS(x) (rtsim_type<decltype((x))>::bits)
#define RTSIM_WIDTH(x) (rtsim_type<decltype((x))>::width)
#define RTSIM_COUNT(a) (rtsim_extent<decltype((a))>::count)
#else
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

#define RTSIM_IF_NUMBER(x, yes, no)                                                           \
    _Generic((x), _Bool: yes, char: yes, signed char: yes, unsigned char: yes, short: yes,      \
             unsigned short: yes, int: yes, unsigned: yes, long: yes, unsigned long: yes,       \
             long long: yes, unsigned long long: yes, float: yes, double: yes,                  \
             long double: yes, default: no)

/* A number as a double; 0 for what has no distance, such as a pointer. */
#define RTSIM_NUMBER(x) RTSIM_IF_NUMBER(x, rtsim_number, rtsim_no_number)(0, (x))
#define RTSIM_KNOWN(x) RTSIM_IF_NUMBER(x, 1, 0)

/* 1 for a number that is not floating-point. */
#define RTSIM_WHOLE(x) _Generic((x), float: 0, double: 0, long double: 0, default: 1)

/* The bits of a signed integer without its sign; 0 for other types. */
#define RTSIM_BITS(x) \
    _Generic((x), int: 8 * (int)sizeof(int) - 1, long: 8 * (int)sizeof(long) - 1, long long: 63, default: 0)

/* `- 0` makes a value of a bit-field. */
#define RTSIM_SUM(id, operation, operator, a, b) \
    rtsim_sum(id, operation, RTSIM_BITS((a) operator (b)), RTSIM_NUMBER((a) - 0), RTSIM_NUMBER((b) - 0))

/* The bits of a shifted value. */
#define RTSIM_WIDTH(x) (8.0 * sizeof((x) + 0))

/* The number of elements of an array; 0 for a pointer. */
#define RTSIM_COUNT(a)                                                                          \
    __builtin_choose_expr(__builtin_types_compatible_p(__typeof__(a), __typeof__(&(a)[0])), 0.0, \
                          (double)sizeof(a) / sizeof((a)[0]))

#endif
#endif

/* For units in C++: the types of rtsim_checks.h and what the static assertions ask, the memory of the
 * objects, and the probes of hitl/building/arguments.py.
 *
 * It includes nothing, because the core of an AVR board has no C++ library.  Its names begin with
 * rtsim.
 */
#ifndef RTSIM_CHECKS_CPP_H
#define RTSIM_CHECKS_CPP_H

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
typedef bool rtsim_bool;

template <class A, class B> struct rtsim_same { enum { value = 0 }; };
template <class A> struct rtsim_same<A, A> { enum { value = 1 }; };

template <class T> struct rtsim_bare { typedef T plain; enum { constant = 0 }; };
template <class T> struct rtsim_bare<const T> { typedef T plain; enum { constant = 1 }; };
template <class T> struct rtsim_bare<volatile T> { typedef T plain; enum { constant = 0 }; };
template <class T> struct rtsim_bare<const volatile T> { typedef T plain; enum { constant = 1 }; };

template <class T, __SIZE_TYPE__ N> struct rtsim_array { typedef T plain[N]; };
#define RTSIM_COMMA , /* within an argument of a macro */

template <class T> struct rtsim_address { enum { value = 0 }; };
template <class T> struct rtsim_address<T *> { enum { value = 1 }; };
template <class T> struct rtsim_address<T *const> { enum { value = 1 }; };
template <class T> struct rtsim_address<T *volatile> { enum { value = 1 }; };
template <class T, __SIZE_TYPE__ N> struct rtsim_address<T[N]> { enum { value = 1 }; };

#define RTSIM_IS(x, type) bool(rtsim_same<rtsim_bare<__typeof__(x)>::plain, type>::value)
#define RTSIM_IS_CONST(x) bool(rtsim_bare<__typeof__(x)>::constant)
#define RTSIM_SAME(x, type) bool(rtsim_same<__typeof__(x), type>::value)
#define RTSIM_IS_ADDRESS(x) bool(rtsim_address<__typeof__(x)>::value)
#define RTSIM_IS_NUMBER(x)                                                                     \
    (RTSIM_IS(x, bool) || RTSIM_IS(x, char) || RTSIM_IS(x, signed char) ||                     \
     RTSIM_IS(x, unsigned char) || RTSIM_IS(x, short) || RTSIM_IS(x, unsigned short) ||        \
     RTSIM_IS(x, int) || RTSIM_IS(x, unsigned) || RTSIM_IS(x, long) ||                         \
     RTSIM_IS(x, unsigned long) || RTSIM_IS(x, long long) || RTSIM_IS(x, unsigned long long) || \
     RTSIM_IS(x, float) || RTSIM_IS(x, double) || RTSIM_IS(x, long double))

/* Where an object is constructed: an operator of our own, as <new> may be missing, or be included. */
struct rtsim_place {
    void *at;
};
inline void *operator new(__SIZE_TYPE__, rtsim_place place) noexcept
{
    return place.at;
}
inline void operator delete(void *, rtsim_place) noexcept
{
}
template <class T> inline void rtsim_destroy(T &object)
{
    object.~T();
}

#endif

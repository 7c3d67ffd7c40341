#include "fragile.h"

#include <stddef.h>

double fault; /* 1: a segmentation fault, 2: a loop without end */

double fragile_step(double x, double v)
{
    static int steps;
    volatile double *volatile nowhere = NULL;
    volatile int more = 1;
    if (++steps == 3 && fault == 1.0) *nowhere = x;
    while (steps == 3 && fault == 2.0 && more) { }
    return -8.0 * x - 4.0 * v;
}

/* A sum of sines: nothing to a processor with a floating-point unit. */
#include "busy.h"

#include <math.h>

float busy_step(uint8_t terms, float angle)
{
    float sum = 0.0f;
    uint8_t k;
    for (k = 1; k <= terms; k++)
        sum += sinf((float)k * angle);
    return sum;
}

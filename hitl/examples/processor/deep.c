/* Calls itself as deep as it is told: on a small processor, until its stack meets the data. */
#include "deep.h"

#define FRAME 16 /* bytes of its own in each call */

__attribute__((noinline)) static uint16_t down(uint16_t depth)
{
    volatile uint8_t frame[FRAME];
    uint8_t k;
    for (k = 0; k < FRAME; k++)
        frame[k] = k;
    return depth == 0 ? frame[0] : (uint16_t)(down((uint16_t)(depth - 1)) + 1);
}

uint16_t deep_step(uint16_t wanted)
{
    return down(wanted);
}

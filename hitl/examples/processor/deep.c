/* Calls itself as deep as it is told: on a small processor, until its stack meets the data. */
#include "deep.h"

__attribute__((noinline)) static uint16_t down(uint16_t depth)
{
    volatile uint8_t frame[32];
    frame[0] = 0;
    return depth == 0 ? frame[0] : (uint16_t)(down((uint16_t)(depth - 1)) + 1);
}

uint16_t deep_step(uint16_t wanted)
{
    return down(wanted);
}

/* A slow integral.  A double keeps each small step; where a double is a float, it is rounded away. */
#include "level.h"

static double level;

void level_init(void)
{
    level = 1.0;
}

float level_step(float rate)
{
    level += 0.005 * rate;
    return (float)level;
}

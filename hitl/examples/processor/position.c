#include "position.h"

#define METRES_PER_DEGREE 111132.0f /* of the meridian, at 45 degrees */

float north_of(float latitude, float home)
{
    return (latitude - home) * METRES_PER_DEGREE;
}

float north_of_e7(int32_t latitude, int32_t home)
{
    return (float)(latitude - home) * (METRES_PER_DEGREE * 1e-7f);
}

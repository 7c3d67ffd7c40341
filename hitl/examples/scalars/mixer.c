#include "mixer.h"

float mix(float throttle, float turn, int side)
{
    const float sum = side < 0 ? throttle - turn : throttle + turn;
    return sum < 0.0f ? 0.0f : sum > 1.0f ? 1.0f : sum;
}

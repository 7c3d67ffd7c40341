#include "guidance.h"

#include <math.h>

#define RAD_PER_DEG 0.017453293f
#define FT_PER_M 3.2808399f
#define EQUATORIAL_RADIUS 6378137.0f
#define ECCENTRICITY_SQUARED 0.0066943800f
#define WHOLE_TURN 3600000000LL /* 1e-7 deg */

void guidance_step(int32_t from_latitude, int32_t from_longitude, const guidance_inputs *in,
                   guidance_outputs *out)
{
    const float track = in->course_command * RAD_PER_DEG;
    const float unit = 1e-7f * RAD_PER_DEG;
    const int32_t up = in->latitude - from_latitude;
    int64_t turn = (int64_t)in->longitude - from_longitude;
    float middle, sine, root, normal, meridian, north, east;

    if (turn > WHOLE_TURN / 2)
        turn -= WHOLE_TURN;
    else if (turn < -WHOLE_TURN / 2)
        turn += WHOLE_TURN;
    middle = ((float)from_latitude + 0.5f * (float)up) * unit;
    sine = sinf(middle);
    root = sqrtf(1.0f - ECCENTRICITY_SQUARED * sine * sine);
    normal = EQUATORIAL_RADIUS / root;
    meridian = normal * (1.0f - ECCENTRICITY_SQUARED) / (root * root);
    north = (float)up * unit * meridian;
    east = (float)turn * unit * normal * cosf(middle);
    out->lateral_deviation =
        (east * cosf(track) - north * sinf(track)) * FT_PER_M - in->offset_command;
    out->base_course = in->course_command;
}

/* Guidance along a straight track: course of the track, and deviation from it. */
#ifndef GUIDANCE_H
#define GUIDANCE_H

#include <stdint.h>

typedef struct {
    int32_t latitude, longitude;      /* 1e-7 deg */
    float course_command;             /* deg */
    float offset_command;             /* ft, of the new track, right of the old one */
} guidance_inputs;

typedef struct {
    float lateral_deviation; /* ft, to the right of the desired track */
    float base_course;       /* deg from north, of the desired track */
} guidance_outputs;

/* The track leads through the point `from_latitude`, `from_longitude`, in 1e-7 deg. */
void guidance_step(int32_t from_latitude, int32_t from_longitude, const guidance_inputs *in,
                   guidance_outputs *out);

#endif

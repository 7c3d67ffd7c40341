#ifndef POSITION_H
#define POSITION_H

#include <stdint.h>

/* How far north of `home`, in m.  The latitudes are in degrees, and in units of 1e-7 degree. */
float north_of(float latitude, float home);
float north_of_e7(int32_t latitude, int32_t home);

#endif

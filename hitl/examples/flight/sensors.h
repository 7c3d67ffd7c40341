/* The sensors of an aircraft: raw readings in whole numbers, values in the units of the law. */
#ifndef SENSORS_H
#define SENSORS_H

#include <stdint.h>

typedef struct {
    int32_t altitude_ft;                              /* 0.01 ft */
    int16_t equivalent_airspeed_kt;                   /* 0.02 kt */
    int16_t alpha_deg, beta_deg;             /* 0.0125 deg */
    int16_t roll_deg, pitch_deg, yaw_deg;             /* 0.0125 deg */
    int16_t roll_rate, pitch_rate, yaw_rate;          /* 0.0002 rad/s */
} sensors_raw;

typedef struct {
    float altitude_ft, equivalent_airspeed_kt, alpha_deg, beta_deg;
    float roll_deg, pitch_deg, yaw_deg, roll_rate, pitch_rate, yaw_rate;
} sensors_values;

void sensors_step(const sensors_raw *raw, sensors_values *values);

#endif

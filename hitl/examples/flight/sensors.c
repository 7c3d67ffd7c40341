#include "sensors.h"

/* A reading, corrected for the sensor's gain and bias. */
static float converted(int32_t raw, float unit, float gain, float bias)
{
    return ((float)raw * unit - bias) * gain;
}

void sensors_step(const sensors_raw *raw, sensors_values *values)
{
    /* The gains and biases of ideal sensors: the compiler must not know them. */
    static volatile float gain = 1.0f, bias = 0.0f;
    const float g = gain, b = bias;

    values->altitude_ft = converted(raw->altitude_ft, 0.01f, g, b);
    values->equivalent_airspeed_kt = converted(raw->equivalent_airspeed_kt, 0.02f, g, b);
    values->alpha_deg = converted(raw->alpha_deg, 0.0125f, g, b);
    values->beta_deg = converted(raw->beta_deg, 0.0125f, g, b);
    values->roll_deg = converted(raw->roll_deg, 0.0125f, g, b);
    values->pitch_deg = converted(raw->pitch_deg, 0.0125f, g, b);
    values->yaw_deg = converted(raw->yaw_deg, 0.0125f, g, b);
    values->roll_rate = converted(raw->roll_rate, 0.0002f, g, b);
    values->pitch_rate = converted(raw->pitch_rate, 0.0002f, g, b);
    values->yaw_rate = converted(raw->yaw_rate, 0.0002f, g, b);
}

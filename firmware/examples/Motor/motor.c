#define REAL float
#line 1 "motor.c"
#include "motor.h"

static const real PERIOD = (real)0.01; /* s */
static const real LIMIT = (real)12.0;  /* V */

void motor_control_init(motor_control *self)
{
    self->integral = 0;
}

real motor_control_step(motor_control *self, real setpoint, real speed)
{
    real error = setpoint - speed;
    real wanted = self->gain * error + self->integral;
    if (wanted > LIMIT)
        return LIMIT;
    if (wanted < -LIMIT)
        return -LIMIT;
    self->integral += self->integral_gain * PERIOD * error;
    return wanted;
}

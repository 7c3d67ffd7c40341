#include "motor.h"

static const real PERIOD = (real)0.01; /* s */
static const real LIMIT = (real)12.0;  /* V */

void motor_control_init(motor_control *self)
{
    self->forward = 0;
    self->reverse = 0;
    self->direction = 0;
    self->reversed = 0;
}

real motor_control_step(motor_control *self, real setpoint, real speed)
{
    int direction = setpoint < 0 ? -1 : 1;
    real *integral = direction < 0 ? &self->reverse : &self->forward;
    real *other = direction < 0 ? &self->forward : &self->reverse;
    real error = setpoint - speed;
    real wanted = self->gain * error + *integral;

    if (direction == -self->direction)
        self->reversed = 1;
    if (setpoint != 0)
        self->direction = direction;
    if (wanted > LIMIT || wanted < -LIMIT) {
        if (self->reversed) /* unload the integral of the old direction */
            *other += self->integral_gain * PERIOD * error;
        return wanted > LIMIT ? LIMIT : -LIMIT;
    }
    *integral += self->integral_gain * PERIOD * error;
    return wanted;
}

/* The controller of rtsim.models.unstable in C, for the closed loop of the benches. */
#include "loop_control.h"

void loop_control_init(loop_control *self)
{
    self->sum = 0.0;
}

double loop_control_step(loop_control *self, double x, double v)
{
    const double force = -(self->proportional * x + self->derivative * v) - self->sum;
    self->sum += self->integral * x;
    return force;
}

#include "unstable_control.h"

#define R RTSIM_REAL_C

void unstable_control_initialize(unstable_control *self)
{
    self->parameters.proportional = R(8.0);
    self->parameters.derivative = R(4.0);
    self->parameters.integral = R(0.5);
    self->sum = R(0.0);
}

void unstable_control_step(unstable_control *self, const unstable_control_inputs *in,
                           unstable_control_outputs *out)
{
    const unstable_control_parameters *k = &self->parameters;
    out->force = -(k->proportional * in->x + k->derivative * in->v) - self->sum;
    self->sum += k->integral * in->x;
}

void unstable_control_terminate(unstable_control *self)
{
    self->sum = R(0.0);
}

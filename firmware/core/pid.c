#include "pid.h"

#define R RTSIM_REAL_C

static void rest(pid_state *s)
{
    s->integrated = s->derived = s->measurement = s->command = R(0.0);
    s->started = 0;
}

void pid_initialize(pid *self)
{
    pid_parameters *k = &self->parameters;
    k->proportional = R(1.0);
    k->integral = R(1.0);
    k->derivative = R(0.1);
    k->setpoint_weight = R(1.0);
    k->filter_time = R(0.02);
    k->tracking_time = R(0.5);
    k->lowest = R(-1.0);
    k->highest = R(1.0);
    k->rate_limit = R(5.0);
    k->period = R(0.01);
    rest(&self->state);
}

void pid_step(pid *self, const pid_inputs *in, pid_outputs *out)
{
    const pid_parameters *k = &self->parameters;
    pid_state *s = &self->state;
    rtsim_real filter, tracking, proportional, wanted, change, command;

    if (!s->started) { /* at rest: neither a kick of the derivative nor a command out of limits */
        s->measurement = in->measurement;
        s->command = rtsim_limited(R(0.0), k->lowest, k->highest);
        s->started = 1;
    }

    filter = k->filter_time + k->period;
    proportional = k->proportional * (k->setpoint_weight * in->setpoint - in->measurement);
    s->derived = k->filter_time / filter * s->derived
                 - k->derivative / filter * (in->measurement - s->measurement);
    wanted = proportional + s->integrated + s->derived;

    change = k->rate_limit * k->period;
    command = rtsim_limited(wanted, k->lowest, k->highest);
    command = rtsim_limited(command, s->command - change, s->command + change);

    /* A tracking time below one period would overshoot: it means one period. */
    tracking = k->tracking_time > k->period ? k->tracking_time : k->period;
    s->integrated += k->integral * k->period * (in->setpoint - in->measurement)
                     + k->period / tracking * (command - wanted);
    s->measurement = in->measurement;
    s->command = command;
    out->command = command;
}

void pid_terminate(pid *self)
{
    rest(&self->state);
}

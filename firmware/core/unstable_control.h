/* The sampled controller that holds x'' = 2 x + u: u_k = -[8 4] x - s_(k-1), s_k = s_(k-1) + x_1 / 2.
 *
 * The design that this translates is rtsim/models/unstable.py. */
#ifndef UNSTABLE_CONTROL_H
#define UNSTABLE_CONTROL_H

#include "real.h"

typedef struct {
    rtsim_real x; /* m */
    rtsim_real v; /* m/s */
} unstable_control_inputs;

typedef struct {
    rtsim_real force; /* N/kg */
} unstable_control_outputs;

typedef struct {
    rtsim_real proportional; /* 1/s^2 */
    rtsim_real derivative;   /* 1/s */
    rtsim_real integral;     /* 1/s^2, at each step */
} unstable_control_parameters;

typedef struct {
    unstable_control_parameters parameters;
    rtsim_real sum; /* N/kg */
} unstable_control;

/* The published gains, and a sum of 0. */
void unstable_control_initialize(unstable_control *self);

/* The force for these inputs; the sum counts from the next step on. */
void unstable_control_step(unstable_control *self, const unstable_control_inputs *in,
                           unstable_control_outputs *out);

/* A sum of 0; the parameters stay. */
void unstable_control_terminate(unstable_control *self);

#endif

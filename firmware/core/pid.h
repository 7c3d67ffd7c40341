/* PID controller: setpoint weight, filtered derivative of the measurement, limits of the command and
 * of its rate, back-calculation against windup.
 *
 * Source: K. J. Astrom and R. M. Murray, Feedback Systems (Princeton, 2008), sections 10.4 (windup)
 * and 10.5 (implementation).  The design that this translates, with the same order of operations, is
 * rtsim/models/pid.py. */
#ifndef PID_H
#define PID_H

#include "real.h"

typedef struct {
    rtsim_real setpoint;
    rtsim_real measurement;
} pid_inputs;

typedef struct {
    rtsim_real command;
} pid_outputs;

typedef struct {
    rtsim_real proportional;
    rtsim_real integral;        /* 1/s */
    rtsim_real derivative;      /* s */
    rtsim_real setpoint_weight; /* of the proportional part */
    rtsim_real filter_time;     /* s, of the derivative */
    rtsim_real tracking_time;   /* s, in which a limited command unwinds the integral */
    rtsim_real lowest;          /* command */
    rtsim_real highest;         /* command */
    rtsim_real rate_limit;      /* 1/s, of the command */
    rtsim_real period;          /* s, above 0: pid_step is called so often */
} pid_parameters;

typedef struct {
    rtsim_real integrated;  /* integral part of the command */
    rtsim_real derived;     /* derivative part of the command */
    rtsim_real measurement; /* of the step before */
    rtsim_real command;     /* of the step before */
    int started;
} pid_state;

typedef struct {
    pid_parameters parameters;
    pid_state state;
} pid;

/* Default parameters, and the state at rest. */
void pid_initialize(pid *self);

/* One period later: the command for these inputs. */
void pid_step(pid *self, const pid_inputs *in, pid_outputs *out);

/* The state at rest; the parameters stay. */
void pid_terminate(pid *self);

#endif

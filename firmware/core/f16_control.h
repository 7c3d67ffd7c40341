/* NASA's control law for the F-16: stability augmentation and autopilot, without memory.
 *
 * Source: F16_control.dml revision F (NASA/TM-2015-218675).  The design that this translates, with
 * the same order of operations, is rtsim/models/f16/law.py.  Units are the source's: deg, ft, kt,
 * rad/s and fractions of travel. */
#ifndef F16_CONTROL_H
#define F16_CONTROL_H

#include "real.h"

typedef struct {
    rtsim_real throttle;               /* 0 to 1 */
    rtsim_real long_stick;             /* -1 to 1, aft is positive */
    rtsim_real lat_stick;              /* -1 to 1, right is positive */
    rtsim_real pedal;                  /* -1 to 1, nose right is positive */
    rtsim_real sas_on;                 /* 0 or 1: stability augmentation */
    rtsim_real autopilot_on;           /* 0 or 1: brings the augmentation with it */
    rtsim_real airspeed_command;       /* kt, equivalent */
    rtsim_real altitude_command;       /* ft */
    rtsim_real lateral_deviation;      /* ft, to the right of the desired track */
    rtsim_real base_course;            /* deg from north, of the desired track */
    rtsim_real altitude_ft;            /* ft above the sea */
    rtsim_real equivalent_airspeed_kt; /* kt */
    rtsim_real alpha_deg;              /* deg */
    rtsim_real beta_deg;               /* deg */
    rtsim_real roll_deg;               /* deg */
    rtsim_real pitch_deg;              /* deg */
    rtsim_real yaw_deg;                /* deg */
    rtsim_real roll_rate;              /* rad/s */
    rtsim_real pitch_rate;             /* rad/s */
    rtsim_real yaw_rate;               /* rad/s */
} f16_control_inputs;

typedef struct {
    rtsim_real elevator; /* deg, trailing edge down is positive */
    rtsim_real aileron;  /* deg, left wing down is positive */
    rtsim_real rudder;   /* deg, trailing edge left is positive */
    rtsim_real power;    /* 0 to 100 % */
} f16_control_outputs;

typedef struct {
    rtsim_real theta_trim;      /* deg */
    rtsim_real alpha_trim;      /* deg */
    rtsim_real airspeed_trim;   /* kt */
    rtsim_real long_stick_trim; /* fraction of travel */
    rtsim_real throttle_trim;   /* fraction of travel */
    rtsim_real altitude_gain;   /* deg/ft */
    rtsim_real deviation_gain;  /* deg/ft */
    rtsim_real course_gain;     /* deg/deg */
    /* fraction of travel per kt, deg, rad/s and deg */
    rtsim_real stick_airspeed, stick_alpha, stick_pitch_rate, stick_pitch;
    rtsim_real throttle_airspeed, throttle_alpha, throttle_pitch_rate, throttle_pitch;
    /* fraction of travel per deg, deg, rad/s and rad/s */
    rtsim_real lateral_roll, lateral_beta, lateral_roll_rate, lateral_yaw_rate;
    rtsim_real pedal_roll, pedal_beta, pedal_roll_rate, pedal_yaw_rate;
} f16_control_parameters;

typedef struct {
    f16_control_parameters parameters;
} f16_control;

/* The gains and trims of the source; change self->parameters afterwards at will. */
void f16_control_initialize(f16_control *self);

/* Outputs for these inputs.  in and out must not overlap. */
void f16_control_step(f16_control *self, const f16_control_inputs *in, f16_control_outputs *out);

/* Nothing is held, so nothing is given back. */
void f16_control_terminate(f16_control *self);

#endif

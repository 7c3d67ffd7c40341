#ifndef MOTOR_H
#define MOTOR_H

#ifndef REAL
#define REAL double
#endif
typedef REAL real;

typedef struct {
    real gain;          /* V s/rad */
    real integral_gain; /* V/rad */
    real forward;       /* V, the integral while the wanted speed is positive */
    real reverse;       /* V, the integral while the wanted speed is negative */
    int direction;      /* 1, -1, or 0 before the first wanted speed */
    int reversed;       /* 1 after a reversal */
} motor_control;

void motor_control_init(motor_control *self);
real motor_control_step(motor_control *self, real setpoint, real speed);

#endif

#ifndef MOTOR_H
#define MOTOR_H

#ifndef REAL
#define REAL double
#endif
typedef REAL real;

typedef struct {
    real gain;          /* V s/rad */
    real integral_gain; /* V/rad */
    real integral;      /* V */
} motor_control;

void motor_control_init(motor_control *self);
real motor_control_step(motor_control *self, real setpoint, real speed);

#endif

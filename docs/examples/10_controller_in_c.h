#ifndef CONTROLLER_IN_C_H
#define CONTROLLER_IN_C_H

typedef struct {
    double gain;          /* V s/rad */
    double integral_gain; /* V/rad */
    double integral;      /* V */
} motor_control;

void motor_control_init(motor_control *self);
double motor_control_step(motor_control *self, double setpoint, double speed);

#endif

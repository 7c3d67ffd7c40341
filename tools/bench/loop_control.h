#ifndef LOOP_CONTROL_H
#define LOOP_CONTROL_H

typedef struct {
    double proportional, derivative, integral; /* 1/s^2, 1/s, 1/s^2 */
    double sum;                                /* N/kg */
} loop_control;

void loop_control_init(loop_control *self);
double loop_control_step(loop_control *self, double x, double v);

#endif

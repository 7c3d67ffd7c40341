#include "10_controller_in_c.h"

void motor_control_init(motor_control *self)
{
    self->integral = 0.0;
}

double motor_control_step(motor_control *self, double setpoint, double speed)
{
    double error = setpoint - speed;
    self->integral += 0.01 * self->integral_gain * error;
    double voltage = self->gain * error + self->integral;
    if (voltage > 12.0)
        return 12.0;
    if (voltage < -12.0)
        return -12.0;
    return voltage;
}

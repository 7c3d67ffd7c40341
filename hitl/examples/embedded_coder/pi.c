#include "pi.h"

P rtP = {2.0, 1.0, 5.0};
DW rtDW;
ExtU rtU;
ExtY rtY;

void pi_step(void)
{
    real_T rtb_error;
    real_T rtb_Sum;

    rtb_error = rtU.reference - rtU.speed;
    rtb_Sum = rtP.Kp * rtb_error + rtDW.Integrator_DSTATE;

    if (rtb_Sum > rtP.limit) {
        rtY.torque = rtP.limit;
        rtY.saturated = 1;
    } else if (rtb_Sum < -rtP.limit) {
        rtY.torque = -rtP.limit;
        rtY.saturated = -1;
    } else {
        rtY.torque = rtb_Sum;
        rtY.saturated = 0;
    }

    if (!rtU.enable) {
        rtY.torque = 0.0;
        rtDW.Integrator_DSTATE = 0.0;
    } else if (rtY.saturated == 0) {
        rtDW.Integrator_DSTATE += rtP.Ki * 0.02 * rtb_error;
    }
}

void pi_initialize(void)
{
    rtDW.Integrator_DSTATE = 0.0;
}

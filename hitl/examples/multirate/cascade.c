#include "cascade.h"

DW rtDW;
ExtU rtU;
ExtY rtY;

void cascade_step0(void)
{
    rtY.command = 4.0F * (rtDW.RateTransition_Buffer0 - rtU.rate);
    rtY.outer_steps = rtDW.outer_steps;
}

void cascade_step1(void)
{
    rtDW.RateTransition_Buffer0 = 1.5F * (rtU.angle_command - rtU.angle);
    rtDW.outer_steps++;
}

void cascade_initialize(void)
{
    rtDW.RateTransition_Buffer0 = 0.0F;
    rtDW.outer_steps = 0U;
}

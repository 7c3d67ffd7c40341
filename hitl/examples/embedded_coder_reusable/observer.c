#include "observer.h"

void observer_step(RT_MODEL *const rtM)
{
    DW *rtDW = rtM->dwork;
    const ExtU *rtU = rtM->inputs;
    ExtY *rtY = rtM->outputs;
    real_T rtb_innovation;

    rtY->estimate[0] = rtDW->UnitDelay_DSTATE[0];
    rtY->estimate[1] = rtDW->UnitDelay_DSTATE[1];

    rtb_innovation = rtU->position - rtDW->UnitDelay_DSTATE[0];
    rtDW->UnitDelay_DSTATE[0] += 0.01 * rtDW->UnitDelay_DSTATE[1] + 0.2 * rtb_innovation;
    rtDW->UnitDelay_DSTATE[1] += 0.01 * rtU->acceleration + 1.5 * rtb_innovation;
}

void observer_initialize(RT_MODEL *const rtM)
{
    rtM->dwork->UnitDelay_DSTATE[0] = 0.0;
    rtM->dwork->UnitDelay_DSTATE[1] = 0.0;
}

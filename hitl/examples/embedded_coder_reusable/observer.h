/* In the style of reusable generated code: the caller owns inputs, outputs and states. */
#ifndef OBSERVER_H
#define OBSERVER_H

#include "rtwtypes.h"

typedef struct {
    real_T UnitDelay_DSTATE[2]; /* position, velocity */
} DW;

typedef struct {
    real_T position;
    real_T acceleration;
} ExtU;

typedef struct {
    real_T estimate[2]; /* position, velocity */
} ExtY;

typedef struct tag_RTM RT_MODEL;

struct tag_RTM {
    ExtU *inputs;
    ExtY *outputs;
    DW *dwork;
};

extern void observer_initialize(RT_MODEL *const rtM);
extern void observer_step(RT_MODEL *const rtM);

#endif

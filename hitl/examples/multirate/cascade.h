/* In the style of generated code with two rates: a fast inner loop, an outer one at a fifth. */
#ifndef CASCADE_H
#define CASCADE_H

#include "rtwtypes.h"

typedef struct {
    real32_T RateTransition_Buffer0; /* the inner loop's command, rad/s */
    uint32_T outer_steps;
} DW;

typedef struct {
    real32_T angle_command;
    real32_T angle;
    real32_T rate;
} ExtU;

typedef struct {
    real32_T command;
    uint32_T outer_steps;
} ExtY;

extern DW rtDW;
extern ExtU rtU;
extern ExtY rtY;

extern void cascade_initialize(void);
extern void cascade_step0(void); /* every 5 ms */
extern void cascade_step1(void); /* every 25 ms */

#endif

/* In the style of generated code whose interface is global: a PI controller with limits. */
#ifndef PI_H
#define PI_H

#include "rtwtypes.h"

typedef struct {
    real_T Integrator_DSTATE;
} DW;

typedef struct {
    real_T reference; /* '<Root>/reference' */
    real_T speed;     /* '<Root>/speed' */
    boolean_T enable; /* '<Root>/enable' */
} ExtU;

typedef struct {
    real_T torque;    /* '<Root>/torque' */
    int32_T saturated; /* '<Root>/saturated': -1, 0 or 1 */
} ExtY;

typedef struct {
    real_T Kp;
    real_T Ki;
    real_T limit;
} P;

extern P rtP;
extern DW rtDW;
extern ExtU rtU;
extern ExtY rtY;

extern void pi_initialize(void);
extern void pi_step(void);

#endif

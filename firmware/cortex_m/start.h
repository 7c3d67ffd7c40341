/* Start-up and stack of a Cortex-M without an SDK. */
#ifndef RTSIM_START_H
#define RTSIM_START_H

#include <stdint.h>

#define REGISTER(address) (*(volatile uint32_t *)(address))

/* The board gives these: what must precede all other code, and the program, which never returns. */
void rtsim_prepare(void);
void rtsim_serve(void);

extern uint32_t rtsim_stack_top;
void rtsim_reset(void);          /* the first handler */
void rtsim_fault(void);          /* the handler of all faults: stops at a breakpoint */
uint32_t rtsim_next_nonce(void); /* another one after each reset */

#endif

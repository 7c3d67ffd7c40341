/* What an ATmega328P gives the dispatcher beside its serial line: cycles, stack, boot nonce, cause
 * of the reset.  rtsim_uno_begin() goes into setup(). */
#ifndef RTSIM_UNO_H
#define RTSIM_UNO_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Timer 1 counts cycles from here on: no PWM on D9 and D10, no library that takes that timer. */
void rtsim_uno_begin(void);
uint32_t rtsim_uno_nonce(void); /* another one after each reset */
uint8_t rtsim_uno_cause(void);  /* MCUSR at the reset; 0 where a boot loader kept it to itself */
/* Asks for a look through the whole stack for its mark; does it, a slice at a time, in less time than
 * a byte takes to arrive; 0 where nothing is left to do.  A look that is begun goes on to its end:
 * requests that follow one another closely do not starve it. */
void rtsim_uno_scan(void);
uint8_t rtsim_uno_scanning(void);

#ifdef __cplusplus
}
#endif

#endif

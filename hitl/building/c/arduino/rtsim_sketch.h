/* For a sketch on a board: the names setup and loop belong to the board's own program there. */
#ifndef RTSIM_SKETCH_H
#define RTSIM_SKETCH_H

#include "rtsim_arduino.h"

void rtsim_sketch_setup(void);
void rtsim_sketch_loop(void);
#define setup rtsim_sketch_setup
#define loop rtsim_sketch_loop

#endif

#ifndef DEEP_H
#define DEEP_H

#include <stdint.h>

uint16_t deep_step(uint16_t wanted);

#endif

#ifndef BUSY_H
#define BUSY_H

#include <stdint.h>

float busy_step(uint8_t terms, float angle);

#endif

/* Reads of constants in the flash of an AVR, which are in ordinary memory elsewhere. */
#ifndef RTSIM_PGMSPACE_H
#define RTSIM_PGMSPACE_H

#include <stdint.h>
#include <string.h>

#ifndef PROGMEM
#define PROGMEM
#endif
#ifndef PSTR
#define PSTR(text) (text)
#endif
#define pgm_read_byte(address) (*(const uint8_t *)(address))
#define pgm_read_word(address) (*(const uint16_t *)(address))
#define pgm_read_dword(address) (*(const uint32_t *)(address))
#define pgm_read_float(address) (*(const float *)(address))
#define memcpy_P memcpy
#define strlen_P strlen
#define strcpy_P strcpy
#define strcmp_P strcmp

#endif

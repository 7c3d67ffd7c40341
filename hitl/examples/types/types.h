/* One object of each type; what comes in goes out. */
#ifndef TYPES_H
#define TYPES_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    double f64;
    float f32;
    int8_t i8;
    int16_t i16;
    int32_t i32;
    int64_t i64;
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
    bool flag;
} types_scalars;

typedef struct {
    float vector[3];
    int16_t matrix[2][3];
    bool flags[4];
    int16_t angle;       /* 2^-7 deg */
    uint8_t temperature; /* 0.5 degC, from -40 degC */
    int8_t command;      /* limited to what it holds */
} types_arrays;

void types_pass_scalars(const types_scalars *in, types_scalars *out);
void types_pass_arrays(const types_arrays *in, types_arrays *out);

#endif

/* The types of generated code, on a processor whose int has 32 bits. */
#ifndef RTWTYPES_H
#define RTWTYPES_H

typedef unsigned char boolean_T;
typedef signed char int8_T;
typedef short int16_T;
typedef int int32_T;
typedef unsigned int uint32_T;
typedef float real32_T;
typedef double real_T;

#endif

#define REAL float
#line 1 "rtsim_unit.c"
/* Generated from motor.toml; change that file instead. */
#include <rtsim/board.h>
#include "rtsim_checks.h"
#line 4 "motor.toml"
#include "motor.h"
#line 1 "the generated unit"
#pragma GCC diagnostic error "-Wimplicit-function-declaration"
#pragma GCC diagnostic error "-Wimplicit-int"
#pragma GCC diagnostic error "-Wincompatible-pointer-types"
#pragma GCC diagnostic error "-Wint-conversion"
#pragma GCC diagnostic error "-Wempty-body"
#pragma GCC diagnostic error "-Wunused-value"
#line 7 "motor.toml"
static motor_control control;
#line 1 "the generated unit"
#line 12 "motor.toml"
static rtsim_float32 setpoint;
#line 1 "the generated unit"
#line 13 "motor.toml"
static rtsim_float32 speed;
#line 1 "the generated unit"
#line 16 "motor.toml"
static rtsim_float32 voltage;
#line 1 "the generated unit"
#line 12 "motor.toml"
_Static_assert(sizeof(&(setpoint)) > 0, "setpoint is no object of C"); _Static_assert(!RTSIM_IS_ADDRESS((setpoint)), "setpoint is an array or a pointer in C: give its shape"); _Static_assert(!RTSIM_IS((setpoint), _Bool), "setpoint is float32 here and _Bool in C: make them the same"); _Static_assert(!RTSIM_IS((setpoint), char), "setpoint is float32 here and char in C: make them the same"); _Static_assert(!RTSIM_IS((setpoint), signed char), "setpoint is float32 here and signed char in C: make them the same"); _Static_assert(!RTSIM_IS((setpoint), short), "setpoint is float32 here and short in C: make them the same"); _Static_assert(!RTSIM_IS((setpoint), int), "setpoint is float32 here and int in C: make them the same"); _Static_assert(!RTSIM_IS((setpoint), long), "setpoint is float32 here and long in C: make them the same"); _Static_assert(!RTSIM_IS((setpoint), long long), "setpoint is float32 here and long long in C: make them the same"); _Static_assert(!RTSIM_IS((setpoint), unsigned char), "setpoint is float32 here and unsigned char in C: make them the same"); _Static_assert(!RTSIM_IS((setpoint), unsigned short), "setpoint is float32 here and unsigned short in C: make them the same"); _Static_assert(!RTSIM_IS((setpoint), unsigned int), "setpoint is float32 here and unsigned int in C: make them the same"); _Static_assert(!RTSIM_IS((setpoint), unsigned long), "setpoint is float32 here and unsigned long in C: make them the same"); _Static_assert(!RTSIM_IS((setpoint), unsigned long long), "setpoint is float32 here and unsigned long long in C: make them the same"); _Static_assert(!RTSIM_IS((setpoint), float) || (sizeof(float) == 4), "setpoint is float32 here and float in C: make them the same"); _Static_assert(!RTSIM_IS((setpoint), double) || (sizeof(double) == 4), "setpoint is float32 here and double in C: make them the same"); _Static_assert(!RTSIM_IS((setpoint), long double) || (sizeof(long double) == 4), "setpoint is float32 here and long double in C: make them the same"); _Static_assert(RTSIM_IS_NUMBER((setpoint)), "setpoint is no number in C: name one of its members"); _Static_assert(!RTSIM_IS_CONST((setpoint)), "setpoint is const in C: nothing can be written to it");
#line 1 "the generated unit"
#line 13 "motor.toml"
_Static_assert(sizeof(&(speed)) > 0, "speed is no object of C"); _Static_assert(!RTSIM_IS_ADDRESS((speed)), "speed is an array or a pointer in C: give its shape"); _Static_assert(!RTSIM_IS((speed), _Bool), "speed is float32 here and _Bool in C: make them the same"); _Static_assert(!RTSIM_IS((speed), char), "speed is float32 here and char in C: make them the same"); _Static_assert(!RTSIM_IS((speed), signed char), "speed is float32 here and signed char in C: make them the same"); _Static_assert(!RTSIM_IS((speed), short), "speed is float32 here and short in C: make them the same"); _Static_assert(!RTSIM_IS((speed), int), "speed is float32 here and int in C: make them the same"); _Static_assert(!RTSIM_IS((speed), long), "speed is float32 here and long in C: make them the same"); _Static_assert(!RTSIM_IS((speed), long long), "speed is float32 here and long long in C: make them the same"); _Static_assert(!RTSIM_IS((speed), unsigned char), "speed is float32 here and unsigned char in C: make them the same"); _Static_assert(!RTSIM_IS((speed), unsigned short), "speed is float32 here and unsigned short in C: make them the same"); _Static_assert(!RTSIM_IS((speed), unsigned int), "speed is float32 here and unsigned int in C: make them the same"); _Static_assert(!RTSIM_IS((speed), unsigned long), "speed is float32 here and unsigned long in C: make them the same"); _Static_assert(!RTSIM_IS((speed), unsigned long long), "speed is float32 here and unsigned long long in C: make them the same"); _Static_assert(!RTSIM_IS((speed), float) || (sizeof(float) == 4), "speed is float32 here and float in C: make them the same"); _Static_assert(!RTSIM_IS((speed), double) || (sizeof(double) == 4), "speed is float32 here and double in C: make them the same"); _Static_assert(!RTSIM_IS((speed), long double) || (sizeof(long double) == 4), "speed is float32 here and long double in C: make them the same"); _Static_assert(RTSIM_IS_NUMBER((speed)), "speed is no number in C: name one of its members"); _Static_assert(!RTSIM_IS_CONST((speed)), "speed is const in C: nothing can be written to it");
#line 1 "the generated unit"
#line 19 "motor.toml"
_Static_assert(sizeof(&(control.gain)) > 0, "gain is no object of C"); _Static_assert(!RTSIM_IS_ADDRESS((control.gain)), "gain is an array or a pointer in C: give its shape"); _Static_assert(!RTSIM_IS((control.gain), _Bool), "gain is float32 here and _Bool in C: make them the same"); _Static_assert(!RTSIM_IS((control.gain), char), "gain is float32 here and char in C: make them the same"); _Static_assert(!RTSIM_IS((control.gain), signed char), "gain is float32 here and signed char in C: make them the same"); _Static_assert(!RTSIM_IS((control.gain), short), "gain is float32 here and short in C: make them the same"); _Static_assert(!RTSIM_IS((control.gain), int), "gain is float32 here and int in C: make them the same"); _Static_assert(!RTSIM_IS((control.gain), long), "gain is float32 here and long in C: make them the same"); _Static_assert(!RTSIM_IS((control.gain), long long), "gain is float32 here and long long in C: make them the same"); _Static_assert(!RTSIM_IS((control.gain), unsigned char), "gain is float32 here and unsigned char in C: make them the same"); _Static_assert(!RTSIM_IS((control.gain), unsigned short), "gain is float32 here and unsigned short in C: make them the same"); _Static_assert(!RTSIM_IS((control.gain), unsigned int), "gain is float32 here and unsigned int in C: make them the same"); _Static_assert(!RTSIM_IS((control.gain), unsigned long), "gain is float32 here and unsigned long in C: make them the same"); _Static_assert(!RTSIM_IS((control.gain), unsigned long long), "gain is float32 here and unsigned long long in C: make them the same"); _Static_assert(!RTSIM_IS((control.gain), float) || (sizeof(float) == 4), "gain is float32 here and float in C: make them the same"); _Static_assert(!RTSIM_IS((control.gain), double) || (sizeof(double) == 4), "gain is float32 here and double in C: make them the same"); _Static_assert(!RTSIM_IS((control.gain), long double) || (sizeof(long double) == 4), "gain is float32 here and long double in C: make them the same"); _Static_assert(RTSIM_IS_NUMBER((control.gain)), "gain is no number in C: name one of its members"); _Static_assert(!RTSIM_IS_CONST((control.gain)), "gain is const in C: nothing can be written to it");
#line 1 "the generated unit"
#line 20 "motor.toml"
_Static_assert(sizeof(&(control.integral_gain)) > 0, "integral_gain is no object of C"); _Static_assert(!RTSIM_IS_ADDRESS((control.integral_gain)), "integral_gain is an array or a pointer in C: give its shape"); _Static_assert(!RTSIM_IS((control.integral_gain), _Bool), "integral_gain is float32 here and _Bool in C: make them the same"); _Static_assert(!RTSIM_IS((control.integral_gain), char), "integral_gain is float32 here and char in C: make them the same"); _Static_assert(!RTSIM_IS((control.integral_gain), signed char), "integral_gain is float32 here and signed char in C: make them the same"); _Static_assert(!RTSIM_IS((control.integral_gain), short), "integral_gain is float32 here and short in C: make them the same"); _Static_assert(!RTSIM_IS((control.integral_gain), int), "integral_gain is float32 here and int in C: make them the same"); _Static_assert(!RTSIM_IS((control.integral_gain), long), "integral_gain is float32 here and long in C: make them the same"); _Static_assert(!RTSIM_IS((control.integral_gain), long long), "integral_gain is float32 here and long long in C: make them the same"); _Static_assert(!RTSIM_IS((control.integral_gain), unsigned char), "integral_gain is float32 here and unsigned char in C: make them the same"); _Static_assert(!RTSIM_IS((control.integral_gain), unsigned short), "integral_gain is float32 here and unsigned short in C: make them the same"); _Static_assert(!RTSIM_IS((control.integral_gain), unsigned int), "integral_gain is float32 here and unsigned int in C: make them the same"); _Static_assert(!RTSIM_IS((control.integral_gain), unsigned long), "integral_gain is float32 here and unsigned long in C: make them the same"); _Static_assert(!RTSIM_IS((control.integral_gain), unsigned long long), "integral_gain is float32 here and unsigned long long in C: make them the same"); _Static_assert(!RTSIM_IS((control.integral_gain), float) || (sizeof(float) == 4), "integral_gain is float32 here and float in C: make them the same"); _Static_assert(!RTSIM_IS((control.integral_gain), double) || (sizeof(double) == 4), "integral_gain is float32 here and double in C: make them the same"); _Static_assert(!RTSIM_IS((control.integral_gain), long double) || (sizeof(long double) == 4), "integral_gain is float32 here and long double in C: make them the same"); _Static_assert(RTSIM_IS_NUMBER((control.integral_gain)), "integral_gain is no number in C: name one of its members"); _Static_assert(!RTSIM_IS_CONST((control.integral_gain)), "integral_gain is const in C: nothing can be written to it");
#line 1 "the generated unit"
#line 16 "motor.toml"
_Static_assert(sizeof(&(voltage)) > 0, "voltage is no object of C"); _Static_assert(!RTSIM_IS_ADDRESS((voltage)), "voltage is an array or a pointer in C: give its shape"); _Static_assert(!RTSIM_IS((voltage), _Bool), "voltage is float32 here and _Bool in C: make them the same"); _Static_assert(!RTSIM_IS((voltage), char), "voltage is float32 here and char in C: make them the same"); _Static_assert(!RTSIM_IS((voltage), signed char), "voltage is float32 here and signed char in C: make them the same"); _Static_assert(!RTSIM_IS((voltage), short), "voltage is float32 here and short in C: make them the same"); _Static_assert(!RTSIM_IS((voltage), int), "voltage is float32 here and int in C: make them the same"); _Static_assert(!RTSIM_IS((voltage), long), "voltage is float32 here and long in C: make them the same"); _Static_assert(!RTSIM_IS((voltage), long long), "voltage is float32 here and long long in C: make them the same"); _Static_assert(!RTSIM_IS((voltage), unsigned char), "voltage is float32 here and unsigned char in C: make them the same"); _Static_assert(!RTSIM_IS((voltage), unsigned short), "voltage is float32 here and unsigned short in C: make them the same"); _Static_assert(!RTSIM_IS((voltage), unsigned int), "voltage is float32 here and unsigned int in C: make them the same"); _Static_assert(!RTSIM_IS((voltage), unsigned long), "voltage is float32 here and unsigned long in C: make them the same"); _Static_assert(!RTSIM_IS((voltage), unsigned long long), "voltage is float32 here and unsigned long long in C: make them the same"); _Static_assert(!RTSIM_IS((voltage), float) || (sizeof(float) == 4), "voltage is float32 here and float in C: make them the same"); _Static_assert(!RTSIM_IS((voltage), double) || (sizeof(double) == 4), "voltage is float32 here and double in C: make them the same"); _Static_assert(!RTSIM_IS((voltage), long double) || (sizeof(long double) == 4), "voltage is float32 here and long double in C: make them the same"); _Static_assert(RTSIM_IS_NUMBER((voltage)), "voltage is no number in C: name one of its members");
#line 1 "the generated unit"
const uint64_t rtsim_schema = 0x0b16418adeab32c1ULL;
const uint32_t rtsim_name_hash = 0x56389802UL;
const uint32_t rtsim_build = 0x98a28352UL;
const uint16_t rtsim_input_bytes = 8;
const uint16_t rtsim_output_bytes = 4;
const uint16_t rtsim_parameter_bytes = 8;
uint8_t rtsim_parameters[8];
__attribute__((weak)) void rtsim_idle(void)
{
}
int16_t rtsim_start(const uint8_t *rtsim_p)
{
  (void)rtsim_p;
  __builtin_memset(&setpoint, 0, sizeof setpoint);
  __builtin_memset(&speed, 0, sizeof speed);
  __builtin_memset(&voltage, 0, sizeof voltage);
#line 8 "motor.toml"
  motor_control_init(&control);
#line 1 "the generated unit"
  { const unsigned rtsim_k = 0; (void)rtsim_k; rtsim_float32 rtsim_v; __builtin_memcpy(&rtsim_v, rtsim_p + 0u + rtsim_k * 4u, 4); (control.gain) = rtsim_v; }
  { const unsigned rtsim_k = 0; (void)rtsim_k; rtsim_float32 rtsim_v; __builtin_memcpy(&rtsim_v, rtsim_p + 4u + rtsim_k * 4u, 4); (control.integral_gain) = rtsim_v; }
  return 0;
}
int16_t rtsim_step(uint64_t rtsim_ns, const uint8_t *rtsim_u, uint8_t *rtsim_y,
                   uint32_t *rtsim_took)
{
  (void)rtsim_ns, (void)rtsim_u;
  { const unsigned rtsim_k = 0; (void)rtsim_k; rtsim_float32 rtsim_v; __builtin_memcpy(&rtsim_v, rtsim_u + 0u + rtsim_k * 4u, 4); (setpoint) = rtsim_v; }
  { const unsigned rtsim_k = 0; (void)rtsim_k; rtsim_float32 rtsim_v; __builtin_memcpy(&rtsim_v, rtsim_u + 4u + rtsim_k * 4u, 4); (speed) = rtsim_v; }
  const uint32_t rtsim_began = rtsim_cycles();
#line 9 "motor.toml"
  voltage = motor_control_step(&control, setpoint, speed);
#line 1 "the generated unit"
  *rtsim_took = rtsim_cycles() - rtsim_began;
  { const unsigned rtsim_k = 0; (void)rtsim_k; const rtsim_float32 rtsim_v = (voltage); __builtin_memcpy(rtsim_y + 0u + rtsim_k * 4u, &rtsim_v, 4); }
  return 0;
}
void rtsim_terminate(void)
{
}

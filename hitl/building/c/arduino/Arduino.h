/* Arduino's functions for the host and for boards without an Arduino core.  They run on simulated time
 * and on the signals of an interface file: docs/arduino.md says how, and what is missing. */
#ifndef RTSIM_ARDUINO_H_OF_HOST
#define RTSIM_ARDUINO_H_OF_HOST

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if __STDC_HOSTED__
#include <algorithm> /* before abs and round are macros */
#include <cmath>
#include <cstdlib>
#endif

#define ARDUINO 10819
#define ARDUINO_ARCH_RTSIM 1

#define HIGH 0x1
#define LOW 0x0
#define INPUT 0x0
#define OUTPUT 0x1
#define INPUT_PULLUP 0x2
#define LED_BUILTIN 13
#define PI 3.1415926535897932384626433832795
#define HALF_PI 1.5707963267948966192313216916398
#define TWO_PI 6.283185307179586476925286766559
#define DEG_TO_RAD 0.017453292519943295769236907684886
#define RAD_TO_DEG 57.295779513082320876798154814105
#define DEC 10
#define HEX 16
#define OCT 8
#define BIN 2
#define LSBFIRST 0
#define MSBFIRST 1

#undef abs
#undef round
#define abs(x) ((x) > 0 ? (x) : -(x))
#define round(x) ((x) >= 0 ? (long)((x) + 0.5) : (long)((x) - 0.5))
#define constrain(amt, low, high) ((amt) < (low) ? (low) : ((amt) > (high) ? (high) : (amt)))
#define radians(deg) ((deg) * DEG_TO_RAD)
#define degrees(rad) ((rad) * RAD_TO_DEG)
#define sq(x) ((x) * (x))
#define lowByte(w) ((uint8_t)((w) & 0xff))
#define highByte(w) ((uint8_t)((w) >> 8))
#define bitRead(value, bit) (((value) >> (bit)) & 0x01)
#define bitSet(value, bit) ((value) |= (1UL << (bit)))
#define bitClear(value, bit) ((value) &= ~(1UL << (bit)))
#define bitWrite(value, bit, bitvalue) ((bitvalue) ? bitSet(value, bit) : bitClear(value, bit))
#define bit(b) (1UL << (b))
#define noInterrupts() ((void)0)
#define interrupts() ((void)0)

#define PROGMEM
#define PSTR(text) (text)
class __FlashStringHelper;
#define F(text) (reinterpret_cast<const __FlashStringHelper *>(text))

typedef bool boolean;
typedef uint8_t byte;
typedef uint16_t word;

/* The numbers of the analog pins, by processor. */
#ifdef __arm__
enum { A0 = 26, A1, A2, A3, NUM_DIGITAL_PINS = 30 };
#else
enum { A0 = 14, A1, A2, A3, A4, A5, A6, A7, NUM_DIGITAL_PINS = 70 };
#endif

template <class A, class B> inline auto min(const A &a, const B &b) -> decltype(a < b ? a : b)
{
    return a < b ? a : b;
}
template <class A, class B> inline auto max(const A &a, const B &b) -> decltype(a < b ? b : a)
{
    return a > b ? a : b;
}

extern "C" {
unsigned long millis(void);
unsigned long micros(void);
void delay(unsigned long ms);
void delayMicroseconds(unsigned int us);
void yield(void);
}
void setup(void);
void loop(void);

inline long map(long x, long in_low, long in_high, long out_low, long out_high)
{
    return (x - in_low) * (out_high - out_low) / (in_high - in_low) + out_low;
}
long random(long below);
long random(long low, long below);
void randomSeed(unsigned long seed);

#include "Print.h"
#include "Stream.h"
#if __STDC_HOSTED__
#include "WString.h"
#endif

#include "rtsim_arduino.h"

#endif

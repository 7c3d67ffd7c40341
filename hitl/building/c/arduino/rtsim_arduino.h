/* Pins and the serial line of Arduino code: signals of an interface file, on the host and on a board.
 *
 * On a board the pins of the processor are not read and the serial line carries rtsim's protocol, so
 * the code of a controller gets these functions in place of those of the board's core.
 */
#ifndef RTSIM_ARDUINO_H
#define RTSIM_ARDUINO_H

#include <Arduino.h>

enum { RTSIM_SERIAL_IN = 64 };
#ifdef __AVR__
enum { RTSIM_SERIAL_OUT = 64 };
#else
enum { RTSIM_SERIAL_OUT = 256 };
#endif

/* Called by the generated unit. */
void rtsim_arduino_start(bool serial_is_output); /* before the controller is initialised */
void rtsim_clock_begin(uint32_t us, uint32_t ms); /* what the clock shows at the reset */
void rtsim_arduino_step(void);                   /* before the inputs of a step are fed */
void rtsim_pin_declare(uint8_t pin);             /* an input signal feeds the pin */
void rtsim_pin_feed(uint8_t pin, int value);
int rtsim_pin_driven(uint8_t pin); /* 0 to 255 */
void rtsim_serial_feed(const uint8_t *bytes, unsigned count); /* up to the first 0 */
void rtsim_serial_drain(uint8_t *bytes, unsigned count);      /* zeros behind the last byte */

/* Called by the controller's code, by the names below. */
void rtsim_pinMode(uint8_t pin, uint8_t mode);
void rtsim_digitalWrite(uint8_t pin, uint8_t level);
int rtsim_digitalRead(uint8_t pin);
int rtsim_analogRead(uint8_t pin);
void rtsim_analogWrite(uint8_t pin, int value);

class RtsimSerial : public Stream {
  public:
    void begin(unsigned long, uint8_t = 0) {}
    void end() {}
    operator bool() const { return true; }
    int available() override;
    int read() override;
    int peek() override;
    int availableForWrite() override;
    void flush() override {}
    size_t write(uint8_t byte) override;
    using Print::write;
};
extern RtsimSerial rtsim_serial;

#define pinMode rtsim_pinMode
#define digitalWrite rtsim_digitalWrite
#define digitalRead rtsim_digitalRead
#define analogRead rtsim_analogRead
#define analogWrite rtsim_analogWrite
#undef Serial
#define Serial rtsim_serial

#endif

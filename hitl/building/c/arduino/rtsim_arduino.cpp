#include "rtsim_arduino.h"

#if __STDC_HOSTED__ && !defined(__AVR__)
#define RTSIM_ON_HOST 1
#include <exception>
#include <stdio.h>

/* What the code asks for and the interface file does not declare. */
class rtsim_undeclared : public std::exception {
  public:
    rtsim_undeclared(const char *call, int pin, char letter)
    {
        const char name[] = {letter, 0};
        snprintf(text_, sizeof text_,
                 "%s of the pin %s%d, which no input of the interface file feeds; add to [inputs]: "
                 "NAME = { pin = \"%s%d\" }",
                 call, name, pin, name, pin);
    }
    explicit rtsim_undeclared(const char *text) { snprintf(text_, sizeof text_, "%s", text); }
    const char *what() const noexcept override { return text_; }

  private:
    char text_[200];
};
#endif

namespace {
struct Pin {
    uint8_t mode, driven, fed;
    uint16_t value;
};
Pin pins[NUM_DIGITAL_PINS];
bool serial_is_output;
uint8_t in[RTSIM_SERIAL_IN], out[RTSIM_SERIAL_OUT];
unsigned in_first, in_count, out_first, out_count;

Pin *pin_of(uint8_t number)
{
    return number < NUM_DIGITAL_PINS ? &pins[number] : 0;
}

int read_of(const char *call, uint8_t number, char letter, int shown)
{
    Pin *pin = pin_of(number);
#ifdef RTSIM_ON_HOST
    if (pin == 0 || !pin->fed) throw rtsim_undeclared(call, shown, letter);
#else
    (void)call, (void)letter, (void)shown;
    if (pin == 0) return 0;
#endif
    return (int)pin->value;
}
} // namespace

RtsimSerial rtsim_serial;

void rtsim_pins_start(bool output)
{
    memset(pins, 0, sizeof pins);
    serial_is_output = output;
    in_first = in_count = out_first = out_count = 0;
}

void rtsim_pin_declare(uint8_t number)
{
    if (Pin *pin = pin_of(number)) pin->fed = 1;
}

void rtsim_pin_feed(uint8_t number, int value)
{
    if (Pin *pin = pin_of(number)) pin->value = (uint16_t)value;
}

int rtsim_pin_driven(uint8_t number)
{
    Pin *pin = pin_of(number);
    return pin ? pin->driven : 0;
}

void rtsim_pinMode(uint8_t number, uint8_t mode)
{
    if (Pin *pin = pin_of(number)) pin->mode = mode;
}

void rtsim_digitalWrite(uint8_t number, uint8_t level)
{
    if (Pin *pin = pin_of(number)) pin->driven = level ? 255 : 0;
}

int rtsim_digitalRead(uint8_t number)
{
    Pin *pin = pin_of(number);
    if (pin && pin->mode == OUTPUT) return pin->driven ? HIGH : LOW;
    return read_of("digitalRead()", number, 'D', number) ? HIGH : LOW;
}

int rtsim_analogRead(uint8_t number)
{
    uint8_t channel = number < A0 ? number : (uint8_t)(number - A0);
    return read_of("analogRead()", (uint8_t)(A0 + channel), 'A', channel);
}

void rtsim_analogWrite(uint8_t number, int value)
{
    if (Pin *pin = pin_of(number)) {
        pin->mode = OUTPUT;
        pin->driven = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
    }
}

void rtsim_serial_feed(const uint8_t *bytes, unsigned count)
{
    for (unsigned k = 0; k < count && bytes[k] && in_count < sizeof in; k++)
        in[(in_first + in_count++) % sizeof in] = bytes[k];
}

void rtsim_serial_drain(uint8_t *bytes, unsigned count)
{
    for (unsigned k = 0; k < count; k++) {
        bytes[k] = 0;
        if (out_count) {
            bytes[k] = out[out_first];
            out_first = (out_first + 1) % sizeof out;
            out_count--;
        }
    }
}

int RtsimSerial::available()
{
    return (int)in_count;
}

int RtsimSerial::peek()
{
    return in_count ? in[in_first] : -1;
}

int RtsimSerial::read()
{
    int byte = peek();
    if (in_count) {
        in_first = (in_first + 1) % sizeof in;
        in_count--;
    }
    return byte;
}

int RtsimSerial::availableForWrite()
{
    return (int)(sizeof out - out_count);
}

size_t RtsimSerial::write(uint8_t byte)
{
    if (!serial_is_output) {
#ifdef RTSIM_ON_HOST
        putchar(byte);
#endif
        return 1;
    }
    if (out_count == sizeof out) {
#ifdef RTSIM_ON_HOST
        throw rtsim_undeclared("Serial has 256 bytes that no step has taken; give the output with "
                               "pin = \"serial\" a larger shape");
#else
        return 0;
#endif
    }
    out[(out_first + out_count++) % sizeof out] = byte;
    return 1;
}

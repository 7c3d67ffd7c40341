/* Text of numbers, byte by byte, as Arduino's class of this name writes it. */
#ifndef RTSIM_PRINT_H
#define RTSIM_PRINT_H

#include <stddef.h>
#include <stdint.h>

class String;
class __FlashStringHelper;
class Print;

class Printable {
  public:
    virtual size_t printTo(Print &to) const = 0;
};

class Print {
  public:
    virtual size_t write(uint8_t byte) = 0;
    virtual size_t write(const uint8_t *bytes, size_t count);
    virtual int availableForWrite() { return 0; }
    virtual void flush() {}
    size_t write(const char *text);
    size_t write(const char *bytes, size_t count) { return write((const uint8_t *)bytes, count); }

    size_t print(const __FlashStringHelper *text) { return write((const char *)text); }
    size_t print(const char *text) { return write(text); }
    size_t print(char letter) { return write((uint8_t)letter); }
    size_t print(unsigned char value, int base = 10) { return number(value, base); }
    size_t print(int value, int base = 10) { return integer(value, base); }
    size_t print(unsigned int value, int base = 10) { return number(value, base); }
    size_t print(long value, int base = 10) { return integer(value, base); }
    size_t print(unsigned long value, int base = 10) { return number(value, base); }
    size_t print(double value, int digits = 2);
    size_t print(const Printable &value) { return value.printTo(*this); }
#if __STDC_HOSTED__
    size_t print(const String &text);
#endif

    size_t println() { return write("\r\n"); }
    template <class T> size_t println(const T &value)
    {
        size_t count = print(value);
        return count + println();
    }
    template <class T> size_t println(const T &value, int how)
    {
        size_t count = print(value, how);
        return count + println();
    }

  private:
    size_t integer(long value, int base);
    size_t number(unsigned long value, int base);
};

#endif

/* The parts of Print, Stream and random() that do not depend on the clock or the pins. */
#include <Arduino.h>

size_t Print::write(const uint8_t *bytes, size_t count)
{
    size_t written = 0;
    while (written < count && write(bytes[written])) written++;
    return written;
}

size_t Print::write(const char *text)
{
    return text ? write((const uint8_t *)text, strlen(text)) : 0;
}

size_t Print::integer(long value, int base)
{
    if (base != 10 || value >= 0) return number((unsigned long)value, base);
    size_t sign = write((uint8_t)'-');
    return sign + number(0UL - (unsigned long)value, base);
}

size_t Print::number(unsigned long value, int base)
{
    char digits[8 * sizeof value];
    size_t first = sizeof digits;
    if (base == 0) return write((uint8_t)value);
    if (base < 2) base = 10;
    do {
        unsigned long digit = value % (unsigned long)base;
        digits[--first] = (char)(digit < 10 ? '0' + digit : 'A' + digit - 10);
        value /= (unsigned long)base;
    } while (value);
    return write(digits + first, sizeof digits - first);
}

size_t Print::print(double value, int digits)
{
    if (value != value) return write("nan");
    if (value - value != 0) return write("inf");
    if (value > 4294967040.0 || value < -4294967040.0) return write("ovf");
    size_t count = 0;
    if (value < 0) {
        count += write((uint8_t)'-');
        value = -value;
    }
    double half = 0.5;
    for (int k = 0; k < digits; k++) half /= 10.0;
    value += half;
    unsigned long whole = (unsigned long)value;
    double rest = value - (double)whole;
    count += number(whole, 10);
    if (digits > 0) count += write((uint8_t)'.');
    for (; digits > 0; digits--) {
        rest *= 10.0;
        unsigned digit = (unsigned)rest;
        count += write((uint8_t)('0' + digit));
        rest -= digit;
    }
    return count;
}

/* The next byte, taken or not, or -1 when none has come within the timeout. */
int Stream::waited(bool take)
{
    unsigned long began = millis();
    do {
        if (available() > 0) return take ? read() : peek();
    } while (millis() - began < timeout_);
    return -1;
}

size_t Stream::readBytes(char *into, size_t most)
{
    size_t count = 0;
    for (int byte; count < most && (byte = waited(true)) >= 0;) into[count++] = (char)byte;
    return count;
}

size_t Stream::readBytesUntil(char last, char *into, size_t most)
{
    size_t count = 0;
    for (int byte; count < most && (byte = waited(true)) >= 0 && byte != last;)
        into[count++] = (char)byte;
    return count;
}

bool Stream::find(const char *text)
{
    size_t matched = 0;
    for (int byte; text[matched] && (byte = waited(true)) >= 0;)
        matched = byte == text[matched] ? matched + 1 : byte == text[0] ? 1 : 0;
    return text[matched] == 0;
}

int Stream::number_begins()
{
    for (;;) {
        int byte = waited(false);
        if (byte < 0 || byte == '-' || (byte >= '0' && byte <= '9')) return byte;
        read();
    }
}

long Stream::parseInt()
{
    int byte = number_begins();
    bool negative = byte == '-';
    long value = 0;
    if (negative) read();
    while ((byte = waited(false)) >= '0' && byte <= '9') value = 10 * value + (read() - '0');
    return negative ? -value : value;
}

float Stream::parseFloat()
{
    int byte = number_begins();
    bool negative = byte == '-', point = false;
    float value = 0.0f, unit = 1.0f;
    if (negative) read();
    while (((byte = waited(false)) >= '0' && byte <= '9') || (byte == '.' && !point)) {
        read();
        if (byte == '.') {
            point = true;
        } else {
            value = 10.0f * value + (float)(byte - '0');
            if (point) unit *= 10.0f;
        }
    }
    return (negative ? -value : value) / unit;
}

/* The generator of avr-libc: Park and Miller, Communications of the ACM 31 (1988), 1192-1201. */
static int32_t seed = 1;

static long next_random()
{
    int32_t low = seed % 127773, high = seed / 127773;
    seed = 16807 * low - 2836 * high;
    if (seed < 0) seed += 0x7fffffff;
    return seed;
}

long random(long below)
{
    return below == 0 ? 0 : next_random() % below;
}

long random(long low, long below)
{
    return low >= below ? low : low + random(below - low);
}

void randomSeed(unsigned long value)
{
    if (value != 0) seed = (int32_t)(value & 0x7fffffff);
}

#if __STDC_HOSTED__
namespace {
class Text : public Print {
  public:
    std::string text;
    size_t write(uint8_t byte) override { return text += (char)byte, 1; }
    using Print::write;
};
} // namespace

size_t Print::print(const String &text)
{
    return write(text.c_str(), text.length());
}

String::String(double value, int digits)
{
    Text out;
    out.print(value, digits);
    text_ = out.text;
}

void String::integer(long value, int base)
{
    Text out;
    out.print(value, base);
    text_ = out.text;
}

void String::number(unsigned long value, int base)
{
    Text out;
    out.print(value, base);
    text_ = out.text;
}

bool String::endsWith(const String &with) const
{
    size_t own = text_.size(), size = with.text_.size();
    return own >= size && text_.compare(own - size, size, with.text_) == 0;
}

String String::substring(unsigned int from, unsigned int to) const
{
    if (from > to) std::swap(from, to);
    String out;
    if (from < text_.size()) out.text_ = text_.substr(from, to - from);
    return out;
}

void String::trim()
{
    const char *spaces = " \t\r\n\f\v";
    text_.erase(0, std::min(text_.find_first_not_of(spaces), text_.size()));
    text_.erase(text_.find_last_not_of(spaces) + 1);
}

void String::toUpperCase()
{
    for (char &letter : text_)
        if (letter >= 'a' && letter <= 'z') letter = (char)(letter - 'a' + 'A');
}

void String::toLowerCase()
{
    for (char &letter : text_)
        if (letter >= 'A' && letter <= 'Z') letter = (char)(letter - 'A' + 'a');
}

String Stream::readStringUntil(char last)
{
    String out;
    for (int byte; (byte = waited(true)) >= 0 && byte != last;) out += (char)byte;
    return out;
}

String Stream::readString()
{
    String out;
    for (int byte; (byte = waited(true)) >= 0;) out += (char)byte;
    return out;
}
#endif

/* Arduino's class String, for the host. */
#ifndef RTSIM_WSTRING_H
#define RTSIM_WSTRING_H

#include <string>

class __FlashStringHelper;

class String {
  public:
    String(const char *text = "") : text_(text ? text : "") {}
    String(const __FlashStringHelper *text) : text_((const char *)text) {}
    explicit String(char letter) : text_(1, letter) {}
    explicit String(int value, int base = 10) { integer(value, base); }
    explicit String(unsigned int value, int base = 10) { number(value, base); }
    explicit String(long value, int base = 10) { integer(value, base); }
    explicit String(unsigned long value, int base = 10) { number(value, base); }
    explicit String(double value, int digits = 2);

    unsigned int length() const { return (unsigned int)text_.size(); }
    const char *c_str() const { return text_.c_str(); }
    char charAt(unsigned int at) const { return at < text_.size() ? text_[at] : 0; }
    char operator[](unsigned int at) const { return charAt(at); }
    bool reserve(unsigned int size) { return text_.reserve(size), true; }

    String &operator+=(const String &more) { return text_ += more.text_, *this; }
    String &operator+=(const char *more) { return text_ += more, *this; }
    String &operator+=(char more) { return text_ += more, *this; }
    template <class T> String &operator+=(T more) { return *this += String(more); }
    template <class T> bool concat(T more) { return *this += more, true; }
    template <class T> String operator+(T more) const { return String(*this) += more; }

    bool equals(const String &other) const { return text_ == other.text_; }
    bool operator==(const String &other) const { return text_ == other.text_; }
    bool operator!=(const String &other) const { return text_ != other.text_; }
    bool operator<(const String &other) const { return text_ < other.text_; }
    bool startsWith(const String &with) const { return text_.rfind(with.text_, 0) == 0; }
    bool endsWith(const String &with) const;
    int indexOf(char letter, unsigned int from = 0) const { return at(text_.find(letter, from)); }
    int indexOf(const String &t, unsigned int from = 0) const { return at(text_.find(t.text_, from)); }
    String substring(unsigned int from) const { return substring(from, length()); }
    String substring(unsigned int from, unsigned int to) const;
    void trim();
    void toUpperCase();
    void toLowerCase();
    void remove(unsigned int from, unsigned int count) { text_.erase(from, count); }
    long toInt() const { return atol(text_.c_str()); }
    float toFloat() const { return (float)atof(text_.c_str()); }

  private:
    static int at(size_t found) { return found == std::string::npos ? -1 : (int)found; }
    void integer(long value, int base);
    void number(unsigned long value, int base);
    std::string text_;
};

inline String operator+(const char *first, const String &second)
{
    return String(first) += second;
}

#endif

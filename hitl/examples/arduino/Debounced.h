// A button that is read without its bounces: its level must stay for MS milliseconds.
#ifndef DEBOUNCED_H
#define DEBOUNCED_H

#include <Arduino.h>

template <uint8_t PIN, unsigned long MS>
class Debounced {
 public:
  void begin() { pinMode(PIN, INPUT_PULLUP); }

  // True once for each press.
  bool pressed() {
    bool level = digitalRead(PIN) == LOW;
    if (level != last_) {
      last_ = level;
      since_ = millis();
      return false;
    }
    if (level == stable_ || millis() - since_ < MS) {
      return false;
    }
    stable_ = level;
    return stable_;
  }

 private:
  bool last_ = false, stable_ = false;
  unsigned long since_ = 0;
};

#endif

// A button switches a lamp on and off.
#include "Debounced.h"

const int LAMP = 13;
Debounced<2, 25> button;
bool lit = false;

void setup() {
  button.begin();
  pinMode(LAMP, OUTPUT);
}

void loop() {
  if (button.pressed()) {
    lit = !lit;
    digitalWrite(LAMP, lit);
  }
}

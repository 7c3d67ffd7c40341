// The controller motor for rtsim: written by rtsim board export.
#include <rtsim.h>

void setup() {
  Serial.begin(500000);  // any other Stream does as well, such as SerialUSB or Serial1
  rtsim.begin(Serial);
}

void loop() {
  rtsim.poll();
}

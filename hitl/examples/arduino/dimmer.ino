// The mean of eight readings of a potentiometer dims a lamp.
#include "Average.h"

const int KNOB = A1;
const int LAMP = 9;
Average<long, 8> average;

void setup() {
  pinMode(LAMP, OUTPUT);
}

void loop() {
  long mean = average.add(analogRead(KNOB));
  analogWrite(LAMP, map(mean, 0, 1023, 0, 255));
}

// Lines on the serial line: "s120" sets a speed of 120, "?" asks for it.
long speed = 0;

void setup() {
  Serial.begin(9600);
}

void loop() {
  if (Serial.available() == 0) {
    return;
  }
  char letter = Serial.read();
  if (letter == 's') {
    long wanted = Serial.parseInt();  // constrain() is a macro, which would call it three times
    speed = constrain(wanted, 0, 255);
    analogWrite(3, speed);
  } else if (letter == '?') {
    Serial.print(F("speed "));
    Serial.println(speed);
  }
}

// Heats a room to 21 degrees, and does not switch the heater more often than every two seconds.
const int SENSOR = A0;  // 10 mV per degree, and 500 mV at 0 degrees
const int HEATER = 8;
const float WANTED = 21.0f;
const float BAND = 0.5f;
const unsigned long LEAST_MS = 1950;

bool heating = false;
unsigned long switched = 0;

void setup() {
  pinMode(HEATER, OUTPUT);
  digitalWrite(HEATER, LOW);
}

void loop() {
  float now = celsius(analogRead(SENSOR));
  if (millis() - switched < LEAST_MS) {
    return;
  }
  if (!heating && now < WANTED - BAND) {
    change(true);
  } else if (heating && now > WANTED + BAND) {
    change(false);
  }
}

float celsius(int count) {
  return ((float)count * 5.0f / 1023.0f - 0.5f) * 100.0f;
}

void change(bool on) {
  heating = on;
  switched = millis();
  digitalWrite(HEATER, on ? HIGH : LOW);
}

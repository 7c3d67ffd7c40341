#include "Regulator.h"

#include <Arduino.h>

Regulator::Regulator(float *input, float *output, float *target, float kp, float ki, float kd)
    : input_(input), output_(output), target_(target), kp_(kp), ki_(ki), kd_(kd), low_(-12.0f),
      high_(12.0f), sum_(0.0f), last_input_(0.0f), sample_ms_(100)
{
    last_ms_ = millis() - sample_ms_;
}

void Regulator::limits(float low, float high)
{
    low_ = low;
    high_ = high;
}

void Regulator::sampleTime(unsigned long ms)
{
    sample_ms_ = ms;
}

bool Regulator::compute()
{
    unsigned long now = millis();
    if (now - last_ms_ < sample_ms_) {
        skipped++;
        return false;
    }
    computed++;
    float seconds = 0.001f * (float)sample_ms_;
    float error = *target_ - *input_;
    sum_ = constrain(sum_ + ki_ * seconds * error, low_, high_);
    float wanted = kp_ * error + sum_ - kd_ * (*input_ - last_input_) / seconds;
    *output_ = constrain(wanted, low_, high_);
    last_input_ = *input_;
    last_ms_ = now;
    return true;
}

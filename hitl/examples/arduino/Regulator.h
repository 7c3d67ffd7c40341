/* A PID controller that computes once in each sample time, which it measures with millis(). */
#ifndef REGULATOR_H
#define REGULATOR_H

#include <stdint.h>

class Regulator {
  public:
    Regulator(float *input, float *output, float *target, float kp, float ki, float kd);
    void limits(float low, float high);
    void sampleTime(unsigned long ms);
    bool compute(); /* true if the sample time was over */
    uint16_t skipped = 0;
    uint16_t computed = 0;

  private:
    float *input_, *output_, *target_;
    float kp_, ki_, kd_, low_, high_, sum_, last_input_;
    unsigned long sample_ms_, last_ms_;
};

#endif

/* A controller on any board with an Arduino core, for rtsim's processor-in-the-loop tests.
 *
 *     #include <rtsim.h>
 *
 *     void setup()
 *     {
 *         Serial.begin(115200);
 *         rtsim.begin(Serial);
 *     }
 *
 *     void loop()
 *     {
 *         rtsim.poll();
 *     }
 *
 * The controller is the unit that `rtsim board export` generates from an interface file, with its
 * sources.  Nothing else may use the line. */
#ifndef RTSIM_H
#define RTSIM_H

#include <Arduino.h>

#include "rtsim/board.h"

class RtsimBoard {
  public:
    void begin(Stream &line); /* after the line was opened: tells the host of the reset */
    void poll();              /* takes what has arrived, and answers; called again and again */

  private:
    Stream *line_ = nullptr;
};

extern RtsimBoard rtsim;

#endif

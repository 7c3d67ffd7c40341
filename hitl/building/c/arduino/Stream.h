/* Bytes to read: Arduino's class of this name.  Reads wait for at most the timeout, in simulated time. */
#ifndef RTSIM_STREAM_H
#define RTSIM_STREAM_H

#include "Print.h"

class Stream : public Print {
  public:
    virtual int available() = 0;
    virtual int read() = 0;
    virtual int peek() = 0;
    void setTimeout(unsigned long ms) { timeout_ = ms; }
    unsigned long getTimeout() const { return timeout_; }
    size_t readBytes(char *into, size_t most);
    size_t readBytes(uint8_t *into, size_t most) { return readBytes((char *)into, most); }
    size_t readBytesUntil(char last, char *into, size_t most);
    bool find(const char *text);
    long parseInt();
    float parseFloat();
#if __STDC_HOSTED__
    String readString();
    String readStringUntil(char last);
#endif

  private:
    int waited(bool take);
    int number_begins();
    unsigned long timeout_ = 1000;
};

#endif

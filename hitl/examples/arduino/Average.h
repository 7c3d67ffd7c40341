// The mean of the last N values.
#ifndef AVERAGE_H
#define AVERAGE_H

template <class T, unsigned char N>
class Average {
 public:
  T add(T value) {
    sum_ += value - values_[next_];
    values_[next_] = value;
    next_ = (next_ + 1) % N;
    return sum_ / N;
  }

 private:
  T values_[N] = {};
  T sum_ = 0;
  unsigned char next_ = 0;
};

#endif

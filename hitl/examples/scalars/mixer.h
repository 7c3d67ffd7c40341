float mix(float throttle, float turn, int side);

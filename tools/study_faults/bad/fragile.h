extern double fault;
double fragile_step(double x, double v);

/* One RK4 step of NASA's F-16, written by hand: the opponent of the compiled Python model.
 *
 * The equations are those of rtsim/models/{earth,atmosphere,body}.py and rtsim/models/f16, in the
 * same order of evaluation where that matters to the last bits.  f16_tables.h is generated from the
 * project's own f16.json and constants (f16_c.py).  SI units; surfaces in deg, power in %.
 */
#include <math.h>
#include <stddef.h>

#include "f16_tables.h"

enum { STATES = 13, CONTROLS = 4 };

/* In the order of the model's own parameters. */
struct parameters {
    double mass, ixx, iyy, izz, ixz;
    double radius, flattening, gm, j2, earth_rate, earth_angle;
    double cg;
};

struct loads {
    double fx, fy, fz, mx, my, mz;
};

static inline double clamp(double v, double low, double high)
{
    return v < low ? low : v > high ? high : v;
}

/* Index and fraction of an evenly spaced table; the argument is clamped to its ends. */
static inline int segment(double value, double low, double per, int last, double *fraction)
{
    const double s = clamp((value - low) * per, 0.0, last + 1.0);
    const int i = (int)s < last ? (int)s : last;
    *fraction = s - i;
    return i;
}

/* The altitude; sine and cosine of the geodetic latitude. */
static inline double geodetic(const double r[3], const struct parameters *p, double *sine_of,
                              double *cosine_of)
{
    const double ratio = 1.0 - p->flattening;
    const double polar = p->radius * ratio;
    const double e2 = p->flattening * (2.0 - p->flattening);
    const double second_e2 = e2 / (ratio * ratio);
    const double across2 = r[0] * r[0] + r[1] * r[1];
    const double distance = sqrt(across2);
    const double length = sqrt(across2 + r[2] * r[2]);
    double up = r[2] * ratio * (length + second_e2 * polar);
    double across = distance * length;
    double scale = 1.0 / sqrt(up * up + across * across);
    const double su = up * scale, cu = across * scale;
    up = r[2] + second_e2 * polar * su * su * su;
    across = distance - e2 * p->radius * cu * cu * cu;
    scale = 1.0 / sqrt(up * up + across * across);
    const double sine = up * scale, cosine = across * scale;
    *sine_of = sine;
    *cosine_of = cosine;
    return distance * cosine + r[2] * sine - p->radius * sqrt(1.0 - e2 * sine * sine);
}

struct air {
    double density, sound, temperature, pressure;
};

static inline struct air atmosphere(double altitude)
{
    const double height = GEOPOTENTIAL_RADIUS * altitude / (GEOPOTENTIAL_RADIUS + altitude);
    int layer = 0;
    while (layer < LAYERS - 1 && height >= layer_base[layer + 1])
        layer++;
    const double inside = height < ATMOSPHERE_TOP ? height : ATMOSPHERE_TOP;
    const double base = layer_temperature[layer];
    const double temperature = base + layer_lapse[layer] * (inside - layer_base[layer]);
    double pressure = layer_pressure[layer];
    if (layer_exponent[layer] == 0.0)
        pressure *= exp(-G_OVER_R / base * (inside - layer_base[layer]));
    else
        pressure *= pow(base / temperature, layer_exponent[layer]);
    if (height > ATMOSPHERE_TOP)
        pressure *= exp(-G_OVER_R / temperature * (height - ATMOSPHERE_TOP));
    return (struct air){
        pressure / (GAS_CONSTANT * temperature),
        sqrt(HEAT_RATIO * GAS_CONSTANT * temperature),
        temperature,
        pressure,
    };
}

static double thrust_lbf(double power, double altitude_ft, double mach)
{
    double h, f;
    const int i = segment(mach, MACH_LOW, MACH_PER, MACH_LAST, &h);
    const int j = segment(altitude_ft, ALTITUDE_LOW, ALTITUDE_PER, ALTITUDE_LAST, &f);
    const int k = power < MILITARY ? 0 : 1;
    const double part = (power - k * MILITARY) / MILITARY;
    const double *a = thrust[i][j] + k, *b = thrust[i + 1][j] + k;
    const double *c = thrust[i][j + 1] + k, *d = thrust[i + 1][j + 1] + k;
    const double low = (1.0 - part) * (1.0 - h), low_next = (1.0 - part) * h;
    const double high = part * (1.0 - h), high_next = part * h;
    return (1.0 - f) * (low * a[0] + high * a[1] + low_next * b[0] + high_next * b[1])
           + f * (low * c[0] + high * c[1] + low_next * d[0] + high_next * d[1]);
}

static struct loads loads_on(double ub, double vb, double wb, double pr, double qr, double rr,
                             double altitude, const double u[CONTROLS], double cg)
{
    const struct air air = atmosphere(altitude);
    const double speed = sqrt(ub * ub + vb * vb + wb * wb);
    const double airspeed = speed > LOWEST_AIRSPEED ? speed : LOWEST_AIRSPEED;
    const double alpha = atan2(wb, ub) * DEGREES_PER_RADIAN;
    const double beta = asin(clamp(vb / airspeed, -1.0, 1.0)) * DEGREES_PER_RADIAN;
    const double half = 0.5 / airspeed;
    const double p_hat = pr * SPAN * half, q_hat = qr * CHORD * half, r_hat = rr * SPAN * half;
    const double dail = u[1] / 20.0, drdr = u[2] / 30.0;

    double f, h;
    const int j = segment(alpha, ALPHA_LOW, ALPHA_PER, ALPHA_LAST, &f);
    const double g = 1.0 - f;

    int i = segment(u[0], ELEVATOR_LOW, ELEVATOR_PER, ELEVATOR_LAST, &h);
    double w00 = (1.0 - h) * g, w01 = (1.0 - h) * f, w10 = h * g, w11 = h * f;
#define BILINEAR(t, k) \
    (w00 * t[i][j][k] + w01 * t[i][j + 1][k] + w10 * t[i + 1][j][k] + w11 * t[i + 1][j + 1][k])
#define LINEAR(k) (over_alpha[j][k] + f * (over_alpha[j + 1][k] - over_alpha[j][k]))
    double cx = BILINEAR(over_elevator, 0);
    double cm = BILINEAR(over_elevator, 1);

    i = segment(fabs(beta), SLIP_LOW, SLIP_PER, SLIP_LAST, &h);
    w00 = (1.0 - h) * g, w01 = (1.0 - h) * f, w10 = h * g, w11 = h * f;
    double cl = BILINEAR(sideslip, 0);
    double cn = BILINEAR(sideslip, 1);
    if (beta < 0.0) {
        cl = -cl;
        cn = -cn;
    }

    i = segment(beta, BETA_LOW, BETA_PER, BETA_LAST, &h);
    w00 = (1.0 - h) * g, w01 = (1.0 - h) * f, w10 = h * g, w11 = h * f;
    cl += dail * BILINEAR(surfaces, 0) + drdr * BILINEAR(surfaces, 1);
    cn += dail * BILINEAR(surfaces, 2) + drdr * BILINEAR(surfaces, 3);

    const double beta_rad = beta / DEGREES_PER_RADIAN;
    const double cy = -0.02 * beta + 0.021 * dail + 0.086 * drdr + r_hat * LINEAR(2)
                      + p_hat * LINEAR(3);
    const double cz = LINEAR(0) * (1.0 - beta_rad * beta_rad) - 0.19 * u[0] / 25.0
                      + q_hat * LINEAR(4);
    cx += q_hat * LINEAR(1);
    cl += r_hat * LINEAR(5) + p_hat * LINEAR(6);
    cm += q_hat * LINEAR(7);
    cn += r_hat * LINEAR(8) + p_hat * LINEAR(9);

    const double pressed = 0.5 * air.density * airspeed * airspeed * AREA;
    const double fy = pressed * cy, fz = pressed * cz;
    const double arm = (REFERENCE_CG - cg) * CHORD;
    return (struct loads){
        pressed * cx + LBF * thrust_lbf(u[3], altitude / FT, airspeed / air.sound),
        fy,
        fz,
        pressed * SPAN * cl,
        pressed * CHORD * cm + arm * fz,
        pressed * SPAN * cn - arm * fy,
    };
}

void f16_derivative(const double x[STATES], const double u[CONTROLS], const struct parameters *p,
                    double dx[STATES])
{
    const double q0 = x[6], q1 = x[7], q2 = x[8], q3 = x[9];
    const double roll = x[10], pitch = x[11], yaw = x[12];
    const double s = 2.0 / (q0 * q0 + q1 * q1 + q2 * q2 + q3 * q3);
    const double s1 = s * q1, s2 = s * q2, s3 = s * q3;
    const double xx = s1 * q1, yy = s2 * q2, zz = s3 * q3;
    const double xy = s1 * q2, xz = s1 * q3, yz = s2 * q3;
    const double wx = s1 * q0, wy = s2 * q0, wz = s3 * q0;
    const double c11 = 1.0 - yy - zz, c12 = xy + wz, c13 = xz - wy;
    const double c21 = xy - wz, c22 = 1.0 - xx - zz, c23 = yz + wx;
    const double c31 = xz + wy, c32 = yz - wx, c33 = 1.0 - xx - yy;

    const double rate = p->earth_rate;
    const double vx = x[3] + rate * x[1], vy = x[4] - rate * x[0], vz = x[5];
    double sine, cosine;
    const double altitude = geodetic(x, p, &sine, &cosine);
    struct loads l = loads_on(c11 * vx + c12 * vy + c13 * vz, c21 * vx + c22 * vy + c23 * vz,
                              c31 * vx + c32 * vy + c33 * vz, roll - rate * c13,
                              pitch - rate * c23, yaw - rate * c33, altitude, u, p->cg);

    const double inverse_r2 = 1.0 / (x[0] * x[0] + x[1] * x[1] + x[2] * x[2]);
    const double central = -p->gm * inverse_r2 * sqrt(inverse_r2);
    const double oblate = 1.5 * p->j2 * p->radius * p->radius * inverse_r2;
    const double latitude = 5.0 * x[2] * x[2] * inverse_r2;
    const double across = central * (1.0 + oblate * (1.0 - latitude));
    const double along = central * (1.0 + oblate * (3.0 - latitude));
    const double per_mass = 1.0 / p->mass;
    const double ax = per_mass * l.fx, ay = per_mass * l.fy, az = per_mass * l.fz;

    dx[0] = x[3];
    dx[1] = x[4];
    dx[2] = x[5];
    dx[3] = across * x[0] + c11 * ax + c21 * ay + c31 * az;
    dx[4] = across * x[1] + c12 * ax + c22 * ay + c32 * az;
    dx[5] = along * x[2] + c13 * ax + c23 * ay + c33 * az;

    dx[6] = -0.5 * (q1 * roll + q2 * pitch + q3 * yaw);
    dx[7] = 0.5 * (q0 * roll + q2 * yaw - q3 * pitch);
    dx[8] = 0.5 * (q0 * pitch + q3 * roll - q1 * yaw);
    dx[9] = 0.5 * (q0 * yaw + q1 * pitch - q2 * roll);

    const double hx = p->ixx * roll - p->ixz * yaw, hy = p->iyy * pitch;
    const double hz = p->izz * yaw - p->ixz * roll;
    const double mx = l.mx - (pitch * hz - yaw * hy);
    const double my = l.my - (yaw * hx - roll * hz);
    const double mz = l.mz - (roll * hy - pitch * hx);
    const double inverse = 1.0 / (p->ixx * p->izz - p->ixz * p->ixz);
    dx[10] = inverse * (p->izz * mx + p->ixz * mz);
    dx[11] = my / p->iyy;
    dx[12] = inverse * (p->ixz * mx + p->ixx * mz);
}

/* The classical step, in place. */
void f16_step(double x[STATES], const double u[CONTROLS], const struct parameters *p, double h)
{
    double k1[STATES], k2[STATES], k3[STATES], k4[STATES], y[STATES];
    f16_derivative(x, u, p, k1);
    for (int i = 0; i < STATES; i++)
        y[i] = x[i] + 0.5 * h * k1[i];
    f16_derivative(y, u, p, k2);
    for (int i = 0; i < STATES; i++)
        y[i] = x[i] + 0.5 * h * k2[i];
    f16_derivative(y, u, p, k3);
    for (int i = 0; i < STATES; i++)
        y[i] = x[i] + h * k3[i];
    f16_derivative(y, u, p, k4);
    for (int i = 0; i < STATES; i++)
        x[i] += h / 6.0 * (k1[i] + 2.0 * (k2[i] + k3[i]) + k4[i]);
    const double norm = sqrt(x[6] * x[6] + x[7] * x[7] + x[8] * x[8] + x[9] * x[9]);
    const double scale = 1.0 / norm;
    for (int i = 6; i < 10; i++)
        x[i] *= scale;
}

/* Many steps, so that the cost of calling C from Python does not count. */
void f16_steps(double x[STATES], const double u[CONTROLS], const struct parameters *p, double h,
               long count)
{
    for (long n = 0; n < count; n++)
        f16_step(x, u, p, h);
}

#include "f16_control.h"

#define R RTSIM_REAL_C

#define PITCH_AUTHORITY R(5.0)   /* deg */
#define COURSE_AUTHORITY R(30.0) /* deg */
#define ROLL_AUTHORITY R(30.0)   /* deg */
#define ELEVATOR_PER_STICK R(-25.0)
#define AILERON_PER_STICK R(-21.5)
#define RUDDER_PER_PEDAL R(-30.0)
#define RUDDER_PER_AILERON R(0.008)
#define ON R(0.5)

/* What stability augmentation holds. */
typedef struct {
    rtsim_real airspeed, pitch, roll;
} references;

void f16_control_initialize(f16_control *self)
{
    /* One by one: an initialised struct would stand in the scarce RAM of an AVR a second time. */
    f16_control_parameters *k = &self->parameters;
    k->theta_trim = R(2.653813535191715);
    k->alpha_trim = R(2.653813535191715);
    k->airspeed_trim = R(287.8088596053291);
    k->long_stick_trim = R(0.1296382327486013);
    k->throttle_trim = R(0.1390191130965607);
    k->altitude_gain = R(-0.05);
    k->deviation_gain = R(-0.01);
    k->course_gain = R(-10.0);
    k->stick_airspeed = R(-0.063009074230494);
    k->stick_alpha = R(0.113230403179271);
    k->stick_pitch_rate = R(10.113432224566077);
    k->stick_pitch = R(3.154983341632913);
    k->throttle_airspeed = R(0.997260602961658);
    k->throttle_alpha = R(-0.025467711176391);
    k->throttle_pitch_rate = R(1.213308488207827);
    k->throttle_pitch = R(0.208744369535208);
    k->lateral_roll = R(3.078043941515770);
    k->lateral_beta = R(0.032365863044163);
    k->lateral_roll_rate = R(4.557858908828332);
    k->lateral_yaw_rate = R(0.589443156647647);
    k->pedal_roll = R(-0.705817452754520);
    k->pedal_beta = R(-0.256362860634868);
    k->pedal_roll_rate = R(-1.073666149713151);
    k->pedal_yaw_rate = R(0.822114635953878);
}

static references autopilot(const f16_control_parameters *k, const f16_control_inputs *in)
{
    references held;
    rtsim_real climb, intercept, error;

    held.airspeed = in->airspeed_command;
    climb = k->altitude_gain * (in->altitude_ft - in->altitude_command);
    held.pitch = k->theta_trim + rtsim_limited(climb, -PITCH_AUTHORITY, PITCH_AUTHORITY);
    intercept = rtsim_limited(k->deviation_gain * in->lateral_deviation, -COURSE_AUTHORITY,
                              COURSE_AUTHORITY);
    error = in->beta_deg + in->yaw_deg - (intercept + in->base_course);
    if (error > R(180.0)) {
        error -= R(360.0);
    } else if (error < R(-180.0)) {
        error += R(360.0);
    }
    held.roll = rtsim_limited(k->course_gain * error, -ROLL_AUTHORITY, ROLL_AUTHORITY);
    return held;
}

void f16_control_step(f16_control *self, const f16_control_inputs *in, f16_control_outputs *out)
{
    const f16_control_parameters *k = &self->parameters;
    rtsim_real throttle = in->throttle, long_stick = in->long_stick;
    rtsim_real lat_stick = in->lat_stick, pedal = in->pedal;
    references held = {k->airspeed_trim, k->theta_trim, R(0.0)};

    if (in->autopilot_on > ON) {
        throttle = long_stick = lat_stick = pedal = R(0.0);
        held = autopilot(k, in);
    }
    if (in->sas_on + in->autopilot_on > ON) {
        rtsim_real speed_error = in->equivalent_airspeed_kt - held.airspeed;
        rtsim_real alpha_error = in->alpha_deg - k->alpha_trim;
        rtsim_real roll_error = in->roll_deg - held.roll;
        rtsim_real pitch_error = in->pitch_deg - held.pitch;
        long_stick -= k->stick_airspeed * speed_error + k->stick_alpha * alpha_error
                      + k->stick_pitch_rate * in->pitch_rate + k->stick_pitch * pitch_error;
        throttle -= k->throttle_airspeed * speed_error + k->throttle_alpha * alpha_error
                    + k->throttle_pitch_rate * in->pitch_rate + k->throttle_pitch * pitch_error;
        lat_stick -= k->lateral_roll * roll_error + k->lateral_beta * in->beta_deg
                     + k->lateral_roll_rate * in->roll_rate + k->lateral_yaw_rate * in->yaw_rate;
        pedal -= k->pedal_roll * roll_error + k->pedal_beta * in->beta_deg
                 + k->pedal_roll_rate * in->roll_rate + k->pedal_yaw_rate * in->yaw_rate;
    }

    out->elevator = ELEVATOR_PER_STICK
                    * rtsim_limited(k->long_stick_trim + long_stick, R(-1.0), R(1.0));
    out->aileron = AILERON_PER_STICK * rtsim_limited(lat_stick, R(-1.0), R(1.0));
    out->rudder = RUDDER_PER_PEDAL * rtsim_limited(pedal, R(-1.0), R(1.0))
                  + RUDDER_PER_AILERON * out->aileron;
    out->power = R(100.0) * rtsim_limited(k->throttle_trim + throttle, R(0.0), R(1.0));
}

void f16_control_terminate(f16_control *self)
{
    (void)self;
}

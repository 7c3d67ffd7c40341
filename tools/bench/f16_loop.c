/* NASA's case 13.1 in one C program: aircraft, guidance, controller and the rows of a recording.
 *
 * The opponent of a whole run of rtsim.  At each tick of the controller the program samples the
 * outputs before the tick, computes guidance and controller, and holds the commands until the next
 * tick.  The rows are those of rtsim's recording, word by word: time, integers, then doubles.  They
 * are written to a file as they are.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "f16_control.c"
#include "f16_step.c"

enum { OUTPUTS = 36, COURSE_INPUTS = 4, COURSE_OUTPUTS = 2, LAW_INPUTS = 20 };
enum { TRACKS = 5, ROW_HEAD = 9, BUFFER_WORDS = 1 << 15 };
enum { PLANT, AUTOPILOT, GUIDANCE, AUTOPILOT_INPUTS, GUIDANCE_INPUTS };
static const int widths[TRACKS] = {
    3 + STATES + CONTROLS + OUTPUTS, ROW_HEAD + CONTROLS, ROW_HEAD + COURSE_OUTPUTS,
    ROW_HEAD + LAW_INPUTS, ROW_HEAD + COURSE_INPUTS,
};

/* Everything that one run needs; f16_loop.py has the same fields in the same order. */
struct run {
    struct parameters plant;
    f16_control law;
    double track[3];            /* the parameters of the guidance */
    double pilot[10];           /* the constant inputs of the controller, without its sensors */
    double course[2];           /* the constant inputs of the guidance, without its sensors */
    double x[STATES];           /* the state; it is the last one after the run */
    double altitude_command;    /* from the time below on, ft */
    int64_t command_ns, step_ns, period_ns, until_ns;
};

/* A track: the rows that wait for the file. */
struct rows {
    int64_t words[BUFFER_WORDS];
    int used;
};

struct recording {
    FILE *file[TRACKS]; /* NULL: without a recording */
    int failed;
    struct rows rows[TRACKS];
};

static struct recording recording;

static void write_rows(int track)
{
    struct rows *rows = &recording.rows[track];
    const size_t used = (size_t)rows->used;
    if (used > 0 && fwrite(rows->words, sizeof(int64_t), used, recording.file[track]) != used)
        recording.failed = 1;
    rows->used = 0;
}

static int64_t *new_row(int track)
{
    struct rows *rows = &recording.rows[track];
    if (rows->used + widths[track] > BUFFER_WORDS)
        write_rows(track);
    int64_t *row = rows->words + rows->used;
    rows->used += widths[track];
    return row;
}

static void plant_row(int64_t ns, int side, const double *x, const double *u, const double *y)
{
    if (recording.file[PLANT] == NULL)
        return;
    int64_t *row = new_row(PLANT);
    row[0] = ns;
    row[1] = row[2] = side;
    memcpy(row + 3, x, STATES * sizeof *x);
    memcpy(row + 3 + STATES, u, CONTROLS * sizeof *u);
    memcpy(row + 3 + STATES + CONTROLS, y, OUTPUTS * sizeof *y);
}

/* The stamps of a message: initiated and completed at ns, arrived in the given microstep. */
static void message_row(int track, int64_t ns, int64_t sequence, int microstep, const void *payload)
{
    if (recording.file[track] == NULL)
        return;
    int64_t *row = new_row(track);
    row[0] = row[2] = row[4] = row[6] = ns;
    row[1] = sequence;
    row[3] = row[5] = row[8] = 0;
    row[7] = microstep;
    memcpy(row + ROW_HEAD, payload, (size_t)(widths[track] - ROW_HEAD) * sizeof(double));
}

static void to_ned(double x, double y, double z, const double latitude[2],
                   const double longitude[2], double out[3])
{
    const double outward = longitude[1] * x + longitude[0] * y;
    out[0] = latitude[1] * z - latitude[0] * outward;
    out[1] = longitude[1] * y - longitude[0] * x;
    out[2] = -latitude[1] * outward - latitude[0] * z;
}

static void f16_outputs(double t, const double x[STATES], const double u[CONTROLS],
                        const struct parameters *p, double y[OUTPUTS])
{
    const double q0 = x[6], q1 = x[7], q2 = x[8], q3 = x[9];
    const double s = 2.0 / (q0 * q0 + q1 * q1 + q2 * q2 + q3 * q3);
    const double s1 = s * q1, s2 = s * q2, s3 = s * q3;
    const double xx = s1 * q1, yy = s2 * q2, zz = s3 * q3;
    const double xy = s1 * q2, xz = s1 * q3, yz = s2 * q3;
    const double wx = s1 * q0, wy = s2 * q0, wz = s3 * q0;
    const double c[3][3] = {{1.0 - yy - zz, xy + wz, xz - wy},
                            {xy - wz, 1.0 - xx - zz, yz + wx},
                            {xz + wy, yz - wx, 1.0 - xx - yy}};
    const double rate = p->earth_rate;
    const double v[3] = {x[3] + rate * x[1], x[4] - rate * x[0], x[5]};
    double body[3], relative[3], ned[3], latitude[2], longitude[2];
    for (int i = 0; i < 3; i++) {
        body[i] = c[i][0] * v[0] + c[i][1] * v[1] + c[i][2] * v[2];
        relative[i] = x[10 + i] - rate * c[i][2];
    }
    y[0] = geodetic(x, p, &latitude[0], &latitude[1]);
    const double celestial = atan2(x[1], x[0]);
    longitude[0] = sin(celestial);
    longitude[1] = cos(celestial);
    const double angle = celestial - p->earth_angle - rate * t;
    y[1] = atan2(latitude[0], latitude[1]);
    y[2] = angle - 2.0 * PI * floor(angle / (2.0 * PI) + 0.5);
    to_ned(v[0], v[1], v[2], latitude, longitude, y + 3);
    double rows[3][3];
    for (int i = 0; i < 3; i++)
        to_ned(c[i][0], c[i][1], c[i][2], latitude, longitude, rows[i]);
    memcpy(ned, rows[0], sizeof ned);
    y[6] = atan2(rows[1][2], rows[2][2]);
    y[7] = atan2(-ned[2], sqrt(ned[0] * ned[0] + ned[1] * ned[1]));
    y[8] = atan2(ned[1], ned[0]);
    const double airspeed = sqrt(body[0] * body[0] + body[1] * body[1] + body[2] * body[2]);
    const struct air air = atmosphere(y[0]);
    const double least = airspeed > LOWEST_AIRSPEED ? airspeed : LOWEST_AIRSPEED;
    y[9] = airspeed;
    y[10] = atan2(body[2], body[0]);
    y[11] = asin(clamp(body[1] / least, -1.0, 1.0));
    y[12] = airspeed / air.sound;
    y[13] = 0.5 * air.density * airspeed * airspeed;
    y[14] = airspeed * sqrt(air.density / SEA_LEVEL_DENSITY);
    for (int i = 0; i < 3; i++) {
        y[15 + i] = x[10 + i];
        y[18 + i] = relative[i];
    }
    y[21] = air.density;
    y[22] = air.sound;
    y[23] = air.temperature;
    y[24] = air.pressure;
    y[25] = LBF * thrust_lbf(u[3], y[0] / FT, y[12]);
    y[26] = y[0] / FT;
    y[27] = y[14] / KT;
    y[28] = y[10] / DEG;
    y[29] = y[11] / DEG;
    for (int i = 0; i < 3; i++)
        y[30 + i] = y[6 + i] / DEG;
    y[33] = y[1] / DEG;
    y[34] = y[2] / DEG;
    const struct loads l = loads_on(body[0], body[1], body[2], relative[0], relative[1],
                                    relative[2], y[0], u, p->cg);
    y[35] = -l.fz / (p->mass * 9.80665);
}

/* rtsim/models/f16/guidance.py: the deviation from a line of constant course, and the course. */
static void course(const double in[COURSE_INPUTS], const double k[3], double out[COURSE_OUTPUTS])
{
    out[0] = 0.0;
    out[1] = in[2];
    if (k[2] <= 0.5)
        return;
    const double e2 = FLATTENING * (2.0 - FLATTENING);
    const double middle = 0.5 * (in[0] + k[0]) * DEG, sine = sin(middle);
    const double root = sqrt(1.0 - e2 * sine * sine), normal = EQUATORIAL_RADIUS / root;
    const double meridian = normal * (1.0 - e2) / (root * root);
    double turn = in[1] - k[1];
    turn -= 360.0 * floor(turn / 360.0 + 0.5);
    const double north = (in[0] - k[0]) * DEG * meridian;
    const double east = turn * DEG * normal * cos(middle);
    out[0] = (east * cos(in[2] * DEG) - north * sin(in[2] * DEG)) / FT - in[3];
}

/* Sample, compute guidance and controller, and return the commands in u. */
static void control(struct run *run, int64_t ns, int64_t sequence, const double y[OUTPUTS],
                    double u[CONTROLS])
{
    double in[LAW_INPUTS], out[COURSE_OUTPUTS];
    const double seen[COURSE_INPUTS] = {y[33], y[34], run->course[0], run->course[1]};
    message_row(GUIDANCE_INPUTS, ns, sequence, 0, seen);
    course(seen, run->track, out);
    message_row(GUIDANCE, ns, sequence, 0, out);
    if (ns >= run->command_ns)
        run->pilot[7] = run->altitude_command;
    memcpy(in, run->pilot, sizeof run->pilot);
    memcpy(in + 8, out, sizeof out);
    memcpy(in + 10, y + 26, 7 * sizeof *y);
    memcpy(in + 17, y + 18, 3 * sizeof *y);
    message_row(AUTOPILOT_INPUTS, ns, sequence, 0, in);
    f16_control_step(&run->law, (const f16_control_inputs *)in, (f16_control_outputs *)u);
    message_row(AUTOPILOT, ns, sequence, 1, u);
}

/* Run from 0 to until_ns; 0, or 1 where the disk is full.  NULL: without a recording. */
int f16_run(struct run *run, const char *const paths[TRACKS])
{
    double u[CONTROLS] = {0.0}, y[OUTPUTS];
    const double h = (double)run->step_ns / 1e9;
    recording.failed = 0;
    for (int i = 0; i < TRACKS; i++) {
        recording.rows[i].used = 0;
        recording.file[i] = paths == NULL ? NULL : fopen(paths[i], "wb");
        recording.failed |= paths != NULL && recording.file[i] == NULL;
    }
    for (int64_t ns = 0, sequence = 0; ns <= run->until_ns && !recording.failed;
         ns += run->step_ns) {
        if (ns > 0)
            f16_step(run->x, u, &run->plant, h);
        f16_outputs((double)ns / 1e9, run->x, u, &run->plant, y);
        plant_row(ns, 0, run->x, u, y);
        if (ns % run->period_ns != 0)
            continue;
        double commands[CONTROLS];
        control(run, ns, sequence++, y, commands);
        if (memcmp(u, commands, sizeof u) == 0)
            continue;
        memcpy(u, commands, sizeof u);
        f16_outputs((double)ns / 1e9, run->x, u, &run->plant, y);
        plant_row(ns, 1, run->x, u, y);
    }
    for (int i = 0; i < TRACKS; i++) {
        if (recording.file[i] == NULL)
            continue;
        write_rows(i);
        recording.failed |= fclose(recording.file[i]) != 0;
    }
    return recording.failed;
}

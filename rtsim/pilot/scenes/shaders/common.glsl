// Common to all shaders. World axes are north, east, down, in m, relative to the camera.

uniform vec3 sun;         // unit vector towards the sun
uniform float height;     // of the camera above the ground, m
uniform float daylight;   // 0 at night, 1 by day
uniform vec3 sunlight;    // colours
uniform vec3 ambient;
uniform vec3 zenith;
uniform vec3 haze_away;   // at the horizon, away from the sun
uniform vec3 haze_facing; // at the horizon, below the sun

const float EARTH = 6371000.0;

vec3 haze(vec2 towards) {
    float facing = 0.5 + 0.5 * dot(towards, sun.xy) * inversesqrt(max(dot(towards, towards), 1e-9));
    return mix(haze_away, haze_facing, facing * facing);
}

// Share of the haze in a colour at a distance (m), at the mean height of the way.
float hazy(float distance, float mean_height) {
    return 1.0 - exp(-distance * exp(-max(mean_height, 0.0) / 4500.0) / 30000.0);
}

uint mixed(ivec2 cell) {
    uint h = uint(cell.x) * 73856093u ^ uint(cell.y) * 19349663u;
    h = (h ^ (h >> 15u)) * 2246822519u;
    h = (h ^ (h >> 13u)) * 3266489917u;
    return h ^ (h >> 16u);
}

float chance(ivec2 cell) { return float(mixed(cell) & 0xffffu) / 65535.0; }

// The position below the camera is tile * 65536 m + inside, so that no large number loses digits.
uniform ivec2 tile;
uniform vec2 inside;

// Smooth random values between 0 and 1, with cells of 2^exponent m.
float noise(vec2 at, int exponent) {
    vec2 q = at / float(1 << exponent);
    ivec2 whole = ivec2(floor(q));
    vec2 f = q - vec2(whole);
    whole += tile * (65536 >> exponent);
    f = f * f * (3.0 - 2.0 * f);
    float a = chance(whole), b = chance(whole + ivec2(1, 0));
    float c = chance(whole + ivec2(0, 1)), d = chance(whole + ivec2(1, 1));
    return mix(mix(a, b, f.x), mix(c, d, f.x), f.y);
}

#ifdef FRAGMENT
// Removes visible steps between similar colours.
vec3 dithered(vec3 colour) {
    vec2 at = gl_FragCoord.xy;
    float grain = fract(52.9829189 * fract(dot(at, vec2(0.06711056, 0.00583715))));
    return colour + (grain - 0.5) / 255.0;
}
#endif

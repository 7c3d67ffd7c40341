// The sky with clouds, and the ground to the horizon, for each pixel of the picture.

uniform mat3 axes;      // rows: forward, right and down of the camera
uniform vec2 tangents;  // of half of the field of view, to the right and down
uniform float pixel;    // angle of a pixel, rad
uniform int layers;     // of a cloud
uniform bool open;      // false under relief, which covers the ground
in vec2 at;
out vec4 colour;

// Colour of the sky without clouds, in the direction of a unit vector.
vec3 sky(vec3 towards) {
    vec3 colour = mix(zenith, haze(towards.xy), exp(5.5 * min(towards.z, 0.0)));
    float near = max(dot(towards, sun), 0.0);
    if (near < 0.8) return colour;
    colour += sunlight * (0.18 * pow(near, 24.0) + 0.35 * pow(near, 400.0));
    return colour + sunlight * 3.0 * smoothstep(0.99990, 0.99996, near);
}

const float BASE = 1500.0, DEEP = 700.0;

float cover(vec2 at, float rise) {
    float n = 0.50 * noise(at, 12) + 0.27 * noise(at, 11);
    if (n < 0.31) return 0.0; // the small parts add at most 0.23
    n += 0.14 * noise(at, 9) + 0.09 * noise(at, 7);
    float edge = 0.56 + 0.10 * rise * rise;
    return smoothstep(edge, edge + 0.10, n);
}

// Adds the clouds that the ray meets before the distance limit.
vec3 clouded(vec3 seen, vec3 towards, float limit) {
    if (abs(towards.z) < 0.004) return seen;
    float here = (height - BASE) / -towards.z; // distance back to the base
    float through = 1.0;
    vec3 light = vec3(0.0);
    float first = (BASE - height) / -towards.z, last = (BASE + DEEP - height) / -towards.z;
    float near = min(first, last), far = max(first, last);
    near = max(near, 0.0);
    far = min(far, limit);
    if (far <= near || near > 90000.0) return seen;
    float fade = exp(-near / 38000.0);
    float whole = float(layers);
    for (int k = 0; k < layers; ++k) {
        float way = mix(near, far, (float(k) + 0.5) / whole);
        vec2 place = inside + towards.xy * way;
        float rise = clamp((height - towards.z * way - BASE) / DEEP, 0.0, 1.0);
        float dense = cover(place, rise) * smoothstep(0.0, 0.12, rise) * smoothstep(0.0, 400.0, way);
        if (dense > 0.01) {
            float lit = 1.0 - 0.75 * cover(place + sun.xy * 350.0, min(rise + 0.35, 1.0));
            vec3 shade = ambient * (0.75 + 0.5 * rise) + 0.75 * sunlight * lit;
            float taken = 1.0 - pow(1.0 - 0.86 * dense, 5.0 / whole);
            light += through * taken * shade;
            through *= 1.0 - taken;
        }
    }
    vec3 cloud = light + through * seen;
    return mix(seen, mix(haze(towards.xy), cloud, fade), fade);
}

vec3 field(ivec2 cell) {
    float c = chance(cell);
    vec3 green = vec3(0.31, 0.40, 0.20), pale = vec3(0.47, 0.49, 0.27);
    vec3 straw = vec3(0.62, 0.55, 0.34), earth = vec3(0.42, 0.34, 0.25);
    return c < 0.45 ? mix(green, pale, c / 0.45)
        : c < 0.75 ? mix(pale, straw, (c - 0.45) / 0.3) : mix(straw, earth, (c - 0.75) / 0.35);
}

float line(float away, float half_width, float foot) {
    return clamp((half_width + 0.5 * foot - abs(away)) / foot, 0.0, 1.0)
        * min(1.0, 2.0 * half_width / foot);
}

vec3 ground(vec3 towards, float way) {
    vec2 place = inside + towards.xy * way;
    float foot = max(way * pixel / max(towards.z, 0.02), 0.01); // length of a pixel on the ground
    float wild = 0.6 * noise(place, 12) + 0.28 * noise(place, 10) + 0.12 * noise(place, 8);

    // fields in rows of blocks
    float row = floor(place.x / 256.0);
    ivec2 first = tile * 256;
    int line_number = int(row) + first.x;
    float moved = place.y + 512.0 * chance(ivec2(line_number, 77));
    ivec2 cell = ivec2(line_number, int(floor(moved / 512.0)) + tile.y * 128);
    vec3 mean = vec3(0.44, 0.45, 0.27);
    float sharp = 1.0 - smoothstep(60.0, 360.0, foot);
    vec3 colour = mix(mean, field(cell), sharp);
    float furrow = fract((chance(cell + 9) < 0.5 ? place.x : place.y) / 8.0);
    colour *= 1.0 + 0.07 * (abs(furrow - 0.5) - 0.25) * (1.0 - smoothstep(1.0, 4.0, foot));
    float hedge = min(abs(fract(place.x / 256.0 + 0.5) - 0.5) * 256.0,
        abs(fract(moved / 512.0 + 0.5) - 0.5) * 512.0);
    colour = mix(colour, vec3(0.20, 0.27, 0.14), 0.75 * line(hedge, 3.5, foot));

    // meadows near the rivers, woods, water
    float stream = abs(noise(place, 13) - 0.5) + 0.02 * (noise(place, 9) - 0.5);
    colour = mix(colour, vec3(0.30, 0.40, 0.19), 1.0 - smoothstep(0.016, 0.05, stream));
    float edge = 0.004 + 0.0004 * foot;
    float woods = smoothstep(0.595 - edge, 0.595 + edge, wild);
    if (woods > 0.0) {
        float tree = 1.0;
        if (foot < 40.0) tree += 0.5 * (noise(place, 4) - 0.5) * (1.0 - smoothstep(6.0, 40.0, foot));
        colour = mix(colour, vec3(0.135, 0.215, 0.105) * tree, woods);
    }
    float wet = 1.0 - smoothstep(0.0055, 0.0065 + 1e-5 * foot, stream);

    // roads along some rows of fields
    float lane = chance(ivec2(line_number >> 3, 5)) * 2048.0;
    float bend = 90.0 * (noise(place, 11) - 0.5);
    float across = fract((place.x + bend) / 2048.0) * 2048.0 - 1024.0;
    float along = fract((place.y + bend) / 4096.0) * 4096.0 - 2048.0;
    float road = max(line(across, 5.0, foot), line(along, 5.0, foot));
    colour = mix(colour, vec3(0.36, 0.36, 0.37), 0.85 * road);

    // grass and earth close by
    if (foot < 6.0) {
        float close = 1.0 - smoothstep(0.5, 6.0, foot);
        colour *= 1.0 + 0.22 * close * (noise(place, 1) + 0.7 * noise(place, 0) - 0.85);
    }

    float shadow = cover(place - sun.xy / max(-sun.z, 0.15) * BASE, 0.3);
    colour *= ambient + sunlight * max(-sun.z, 0.0) * 1.25 * (1.0 - 0.6 * shadow);
    if (wet > 0.0) {
        vec3 water = mix(vec3(0.10, 0.20, 0.27), haze(towards.xy), 0.45 * exp(-6.0 * towards.z));
        vec3 wave = vec3(noise(place, 3) - 0.5, noise(place + 300.0, 3) - 0.5, 0.0);
        vec3 mirrored = normalize(vec3(towards.xy, -towards.z) + 0.02 * wave);
        water += sunlight * 0.7 * pow(max(dot(mirrored, sun), 0.0), 160.0);
        colour = mix(colour, water * (0.15 + 0.85 * daylight), wet);
    }

    // lights of houses at night
    if (daylight > 0.5) return colour;
    ivec2 house = ivec2(floor(place / 64.0)) + tile * 1024;
    float lamp = step(0.972, chance(house)) * step(wild, 0.58) * (1.0 - wet);
    vec2 off = fract(place / 64.0) - 0.5;
    float spot = clamp(6.0 / max(foot, 6.0), 0.0, 1.0) * exp(-dot(off, off) * 4096.0 / (40.0 + foot * foot));
    return colour + vec3(1.0, 0.78, 0.45) * lamp * spot * 1.3 * (1.0 - smoothstep(0.0, 0.5, daylight));
}

void main() {
    vec3 towards = normalize(vec3(1.0, at * tangents) * axes);
    float b = (EARTH + height) * towards.z, c = height * (2.0 * EARTH + height);
    float disc = b * b - c;
    vec3 seen;
    float way = 1e9;
    if (towards.z > 0.0 && disc > 0.0 && height > 0.0) {
        way = c / (b + sqrt(disc));
        float dim = hazy(way, 0.5 * height);
        seen = vec3(0.35, 0.40, 0.28) * (ambient + 0.6 * sunlight);
        if (open && dim < 0.96) seen = ground(towards, way);
        seen = mix(seen, haze(towards.xy), dim);
    } else {
        seen = sky(vec3(towards.xy, min(towards.z, 0.0)));
        float star = chance(ivec2(floor(towards.xy / (abs(towards.z) + 0.3) * 260.0)));
        seen += vec3(0.8) * step(0.9975, star) * pow(1.0 - daylight, 4.0) * step(towards.z, 0.0);
    }
    colour = vec4(dithered(clouded(seen, towards, way)), 1.0).bgra;
}

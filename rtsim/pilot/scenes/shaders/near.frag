// Lit surfaces; paint with an alpha below 1 is mixed with what lies behind it.

uniform int style; // 0: body, 1: relief, 2: flat mark, 3: glowing line, 4: shadow
in vec3 world;
in vec3 facing;
in vec4 painted;
out vec4 colour;

void main() {
    float way = length(world);
    vec3 towards = world / max(way, 1e-6);
    vec3 base = painted.rgb;
    if (style == 3) {
        colour = vec4(base, painted.a).bgra;
        return;
    }
    if (style == 4) {
        colour = vec4(0.03, 0.05, 0.05, 0.55 * daylight);
        return;
    }
    vec3 n = style == 2 ? vec3(0.0, 0.0, -1.0) : normalize(facing);
    if (dot(n, towards) > 0.0) n = -n;
    float lit = max(dot(n, sun), 0.0);
    if (style == 1) {
        vec2 at = inside + world.xy;
        float foot = way / 800.0;
        float near = 1.0 - smoothstep(1.0, 8.0, foot), middle = 1.0 - smoothstep(20.0, 90.0, foot);
        base *= 0.86 + 0.2 * noise(at, 6) * middle + 0.08 * noise(at, 9)
            + 0.25 * near * (noise(at, 1) - 0.5);
    }
    vec3 light = ambient * (0.8 - 0.25 * n.z) + sunlight * 0.95 * lit;
    vec3 seen = base * light;
    if (style == 0) {
        float shine = pow(max(dot(reflect(towards, n), sun), 0.0), 40.0);
        float rim = pow(1.0 - abs(dot(n, towards)), 4.0);
        seen += sunlight * 0.28 * shine + 0.10 * rim * zenith;
    }
    seen = mix(seen, haze(towards.xy), hazy(way, 0.5 * max(height, 0.0)));
    colour = vec4(dithered(seen), style == 2 ? painted.a : 1.0).bgra;
}

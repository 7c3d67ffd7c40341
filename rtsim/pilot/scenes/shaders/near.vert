// Bodies, relief, runway, lines and shadows.

uniform mat3 axes;
uniform vec2 tangents;
uniform mat3 turn;    // rows: the body's axes; the identity for parts of the world
uniform vec3 place;   // of the body
uniform float shadow; // coordinate of the ground onto which the body is projected
uniform bool projected;
uniform float lift;   // share by which the depth decreases, so that marks lie on the ground
in vec3 corner;
in vec3 normal;
in vec4 paint;
out vec3 world;
out vec3 facing;
out vec4 painted;

void main() {
    world = corner * turn + place;
    if (projected) world += sun * ((world.z - shadow) / -min(sun.z, -0.1));
    facing = normal * turn;
    painted = paint;
    vec3 seen = axes * world;
    float depth = log2(max(1.0 + seen.x, 1e-6)) / 24.0 * (1.0 - lift);
    gl_Position = vec4(seen.y / tangents.x, seen.z / tangents.y, (2.0 * depth - 1.0) * seen.x, seen.x);
}

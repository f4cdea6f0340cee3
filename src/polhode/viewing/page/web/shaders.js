const SOLID_VERTEX = `#version 300 es
in vec3 p; in vec3 n;
uniform mat4 camera; uniform mat3 R; uniform vec3 size, at, up; uniform float floor_, shadow;
out vec3 local, normal, world;
void main() {
  local = p; normal = R * normalize(n / size); world = R * (size * p) + at;
  if (shadow > 0.5) world -= up * (dot(up, world) - floor_);
  gl_Position = camera * vec4(world, 1.0);
}`;

// Opposite quadrants of a body have two tones, so that its rotation is seen also about an axis of symmetry.
const SOLID_FRAGMENT = `#version 300 es
precision highp float;
in vec3 local, normal, world;
uniform vec3 colour, eye, up; uniform float marked, shadow;
out vec4 result;
void main() {
  if (shadow > 0.5) { result = vec4(0.0, 0.0, 0.0, 0.20); return; }
  vec3 n = normalize(normal), v = normalize(eye - world);
  // Files turn their triangles either way.
  if (dot(n, v) < 0.0) n = -n;
  float edge = local.x * local.y;
  float tone = mix(1.0, 0.76 + 0.24 * smoothstep(-1.0, 1.0, edge / max(fwidth(edge), 1e-6)), marked);
  vec3 l = normalize(v + 1.1 * up + 0.5 * cross(up, v));
  float diffuse = max(dot(n, l), 0.0), sky = 0.5 + 0.5 * dot(n, up);
  float shine = pow(max(dot(n, normalize(l + v)), 0.0), 40.0);
  result = vec4(colour * tone * (0.46 + 0.22 * sky + 0.42 * diffuse) + 0.16 * shine, 1.0);
}`;

const RIBBON_VERTEX = `#version 300 es
in vec3 a, b; in vec3 corner;
uniform mat4 camera; uniform vec2 screen; uniform float width, now, count;
out float strength;
void main() {
  vec4 pa = camera * vec4(a, 1.0), pb = camera * vec4(b, 1.0);
  vec2 d = (pb.xy / pb.w - pa.xy / pa.w) * screen;
  vec2 across = length(d) > 1e-6 ? normalize(vec2(-d.y, d.x)) : vec2(0.0, 1.0);
  vec4 q = corner.x < 0.5 ? pa : pb;
  q.xy += across * corner.y * width / screen * q.w;
  strength = corner.z > now + 1.0 ? 0.0 : 0.38 + 0.57 * exp(-5.0 * max(now - corner.z, 0.0) / count);
  gl_Position = q;
}`;

const RIBBON_FRAGMENT = `#version 300 es
precision highp float;
in float strength; uniform vec3 colour; out vec4 result;
void main() { if (strength < 0.25) discard; result = vec4(colour, strength); }`;

const GRID_VERTEX = `#version 300 es
in vec2 p; uniform mat4 camera; uniform vec3 centre, e1, e2; uniform float reach;
out vec2 place;
void main() { place = reach * p; gl_Position = camera * vec4(centre + place.x * e1 + place.y * e2, 1.0); }`;

const GRID_FRAGMENT = `#version 300 es
precision highp float;
in vec2 place; uniform vec3 colour; uniform vec2 origin; uniform float spacing, reach; out vec4 result;
float lines(float s) {
  vec2 g = (place + origin) / s, w = fwidth(g), d = abs(fract(g - 0.5) - 0.5) / max(w, vec2(1e-6));
  return (1.0 - min(min(d.x, d.y), 1.0)) * (1.0 - smoothstep(0.2, 0.6, max(w.x, w.y)));
}
void main() {
  float fade = 1.0 - smoothstep(0.25, 1.0, length(place) / reach);
  result = vec4(colour, fade * max(0.42 * lines(5.0 * spacing), 0.2 * lines(spacing)));
}`;

// Spheres as squares that face the camera; each pixel finds its place on the sphere, so few triangles look round. Of
// many, each is one point with one depth, which draws several times faster.
const SPHERE_VERTEX = (many) => `#version 300 es
${many ? "" : "in vec2 corner;"} in vec3 a, b; in float diameter;
uniform mat4 look, lens; uniform vec3 low, span, up, e1, e2; uniform float part, floor_, shadow, tall;
out vec2 local; out vec3 centre; out float radius;
void main() {
  vec3 world = low + span * mix(a, b, part);
  radius = 0.5 * diameter;
  ${many ? `centre = (look * vec4(world, 1.0)).xyz;
  gl_Position = lens * vec4(centre, 1.0);
  gl_PointSize = max(1.0, diameter * lens[1][1] * 0.5 * tall / gl_Position.w);` : `local = 1.05 * corner;
  if (shadow > 0.5) {
    world += up * (floor_ - dot(up, world)) + radius * (local.x * e1 + local.y * e2);
    gl_Position = lens * look * vec4(world, 1.0);
    return;
  }
  centre = (look * vec4(world, 1.0)).xyz;
  gl_Position = lens * vec4(centre + vec3(radius * local, 0.0), 1.0);`}
}`;

const SPHERE_FRAGMENT = (many) => `#version 300 es
precision highp float;
in vec2 local; in vec3 centre; in float radius;
uniform mat4 look, lens; uniform vec3 colour, up; uniform float shadow;
out vec4 result;
void main() {
  vec2 p = ${many ? "vec2(2.0, -2.0) * gl_PointCoord + vec2(-1.0, 1.0)" : "local"};
  float d = dot(p, p);
  if (d > 1.0) discard;
  ${many ? "" : "if (shadow > 0.5) { result = vec4(0.0, 0.0, 0.0, 0.20); gl_FragDepth = gl_FragCoord.z; return; }"}
  vec3 n = vec3(p, sqrt(1.0 - d)), top = mat3(look) * up, v = ${many ? "vec3(0.0, 0.0, 1.0)" : "normalize(-centre)"};
  ${many ? "" : `vec4 place = lens * vec4(centre + radius * n, 1.0);
  gl_FragDepth = 0.5 + 0.5 * place.z / place.w;`}
  vec3 l = normalize(v + 1.1 * top + 0.5 * cross(top, v));
  float diffuse = max(dot(n, l), 0.0), sky = 0.5 + 0.5 * dot(n, top), rim = mix(0.72, 1.0, smoothstep(0.0, 0.5, n.z));
  result = vec4(colour * rim * (0.46 + 0.22 * sky + 0.42 * diffuse), 1.0);
}`;

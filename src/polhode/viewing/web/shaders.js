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

function program(gl, vertex, fragment) {
  const made = gl.createProgram();
  for (const [kind, text] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, text);
    gl.compileShader(shader);
    gl.attachShader(made, shader);
  }
  gl.linkProgram(made);
  if (!gl.getProgramParameter(made, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(made));
  const uniforms = {};
  for (let i = 0; i < gl.getProgramParameter(made, gl.ACTIVE_UNIFORMS); i++) {
    const { name } = gl.getActiveUniform(made, i);
    uniforms[name] = gl.getUniformLocation(made, name);
  }
  return { made, uniforms };
}

/** A vertex array of floats; `layout` lists [attribute, count] in order. */
function vertices(gl, shader, numbers, layout) {
  const array = gl.createVertexArray(), stride = layout.reduce((sum, [, n]) => sum + n, 0);
  gl.bindVertexArray(array);
  gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
  gl.bufferData(gl.ARRAY_BUFFER, new Float32Array(numbers), gl.STATIC_DRAW);
  let offset = 0;
  for (const [name, n] of layout) {
    const place = gl.getAttribLocation(shader.made, name);
    if (place >= 0) {
      gl.enableVertexAttribArray(place);
      gl.vertexAttribPointer(place, n, gl.FLOAT, false, 4 * stride, 4 * offset);
    }
    offset += n;
  }
  return { array, count: numbers.length / stride };
}

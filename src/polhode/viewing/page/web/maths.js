// Small vector maths. Matrices are column-major arrays of 16 (or 9), as WebGL wants them.
const sub = (a, b) => [a[0] - b[0], a[1] - b[1], a[2] - b[2]];
const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
const unit = (a) => { const n = Math.hypot(...a) || 1; return [a[0] / n, a[1] / n, a[2] / n]; };
const along = (a, s, b) => [a[0] + s * b[0], a[1] + s * b[1], a[2] + s * b[2]];

/** Two unit vectors that complete `up` to a right-handed frame (e1, e2, up). */
function frameOf(up) {
  const helper = Math.abs(up[0]) < 0.9 * Math.hypot(...up) ? [1, 0, 0] : [0, 1, 0];
  const e3 = unit(up), e2 = unit(cross(e3, helper));
  return [cross(e2, e3), e2, e3];
}

/** Rotation matrix (9, column-major) of the quaternion (w, x, y, z). */
function rotation(w, x, y, z) {
  return [
    1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y),
    2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x),
    2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y),
  ];
}

/** A vector turned by a rotation matrix, and the product of two (9, column-major). */
const turned = (R, v) => [0, 1, 2].map((i) => R[i] * v[0] + R[3 + i] * v[1] + R[6 + i] * v[2]);
const turnedBy = (R, S) => [0, 3, 6].flatMap((j) => turned(R, S.slice(j, j + 3)));

function multiply(a, b) {
  const c = new Array(16).fill(0);
  for (let j = 0; j < 4; j++) for (let i = 0; i < 4; i++) for (let k = 0; k < 4; k++) c[4 * j + i] += a[4 * k + i] * b[4 * j + k];
  return c;
}

function perspective(fov, aspect, near, far) {
  const f = 1 / Math.tan(fov / 2);
  return [f / aspect, 0, 0, 0, 0, f, 0, 0, 0, 0, (far + near) / (near - far), -1, 0, 0, 2 * far * near / (near - far), 0];
}

function lookAt(eye, target, up) {
  const z = unit(sub(eye, target)), x = unit(cross(up, z)), y = cross(z, x);
  return [x[0], y[0], z[0], 0, x[1], y[1], z[1], 0, x[2], y[2], z[2], 0, -dot(x, eye), -dot(y, eye), -dot(z, eye), 1];
}

const $ = (id) => document.getElementById(id);
const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255);
const cssColour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** A step of 1, 2 or 5 times a power of ten that divides `span` into about `count` parts. */
function niceStep(span, count) {
  const raw = span / count, power = 10 ** Math.floor(Math.log10(raw)), m = raw / power;
  return power * (m < 1.5 ? 1 : m < 3.5 ? 2 : m < 7.5 ? 5 : 10);
}

// Meshes of extent one: flat arrays of position and normal (6 numbers a vertex), triangles in order.
function boxMesh() {
  const out = [];
  for (let axis = 0; axis < 3; axis++) for (const side of [-1, 1]) {
    const corner = (u, v) => { const p = [0, 0, 0]; p[axis] = side / 2; p[(axis + 1) % 3] = u * side / 2; p[(axis + 2) % 3] = v / 2; return p; };
    const n = [0, 0, 0]; n[axis] = side;
    for (const [u, v] of [[-1, -1], [1, -1], [1, 1], [-1, -1], [1, 1], [-1, 1]]) out.push(...corner(u, v), ...n);
  }
  return out;
}

function ellipsoidMesh(rings = 32, sectors = 48) {
  const out = [];
  const point = (i, j) => {
    const a = Math.PI * i / rings, b = 2 * Math.PI * j / sectors;
    return [Math.sin(a) * Math.cos(b), Math.sin(a) * Math.sin(b), Math.cos(a)];
  };
  for (let i = 0; i < rings; i++) for (let j = 0; j < sectors; j++)
    for (const [di, dj] of [[0, 0], [1, 0], [1, 1], [0, 0], [1, 1], [0, 1]]) {
      const n = point(i + di, j + dj);
      out.push(n[0] / 2, n[1] / 2, n[2] / 2, ...n);
    }
  return out;
}

function cylinderMesh(sectors = 48) {
  const out = [];
  for (let j = 0; j < sectors; j++) {
    const [a, b] = [j, j + 1].map((k) => [Math.cos(2 * Math.PI * k / sectors), Math.sin(2 * Math.PI * k / sectors)]);
    for (const [p, z] of [[a, -1], [b, -1], [b, 1], [a, -1], [b, 1], [a, 1]]) out.push(p[0] / 2, p[1] / 2, z / 2, p[0], p[1], 0);
    for (const z of [-1, 1]) {
      const [p, q] = z > 0 ? [a, b] : [b, a];
      out.push(0, 0, z / 2, 0, 0, z, p[0] / 2, p[1] / 2, z / 2, 0, 0, z, q[0] / 2, q[1] / 2, z / 2, 0, 0, z);
    }
  }
  return out;
}

/** A cone with its tip at the upper end. */
function coneMesh(sectors = 24) {
  const out = [];
  for (let j = 0; j < sectors; j++) {
    const [a, b] = [j, j + 1].map((k) => [Math.cos(2 * Math.PI * k / sectors), Math.sin(2 * Math.PI * k / sectors)]);
    for (const [p, z] of [[a, -1], [b, -1]]) out.push(p[0] / 2, p[1] / 2, z / 2, p[0], p[1], 0.5);
    out.push(0, 0, 0.5, a[0] + b[0], a[1] + b[1], 1);
    out.push(0, 0, -0.5, 0, 0, -1, b[0] / 2, b[1] / 2, -0.5, 0, 0, -1, a[0] / 2, a[1] / 2, -0.5, 0, 0, -1);
  }
  return out;
}

/** A mesh of a file: vertices in a box of extent one, with normals that are smooth but at edges of more than 40°. */
function packedMesh(packed, size) {
  const unpack = (text) => new Uint16Array(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
  const numbers = unpack(packed.vertices), faces = unpack(packed.faces), count = faces.length / 3;
  const place = (v) => [0, 1, 2].map((i) => numbers[3 * v + i] / 65535 - 0.5);
  const real = (v) => place(v).map((x, i) => x * size[i]);
  const areas = [], normals = [], around = Array.from({ length: numbers.length / 3 }, () => []);
  for (let f = 0; f < count; f++) {
    const [a, b, c] = [0, 1, 2].map((k) => real(faces[3 * f + k]));
    areas.push(cross(sub(b, a), sub(c, a)));
    normals.push(unit(areas[f]));
    for (let k = 0; k < 3; k++) around[faces[3 * f + k]].push(f);
  }
  const out = [];
  for (let f = 0; f < count; f++) for (let k = 0; k < 3; k++) {
    const v = faces[3 * f + k];
    let n = [0, 0, 0];
    for (const g of around[v]) if (dot(normals[f], normals[g]) > 0.766) n = along(n, 1, areas[g]);
    // The shader divides by the size, as it must for normals of the meshes above.
    out.push(...place(v), ...unit(n).map((x, i) => x * size[i]));
  }
  return out;
}

/** One camera-facing ribbon along a curve: each corner knows both ends of its segment and its frame number. */
function ribbonMesh(points) {
  const out = [];
  for (let k = 0; k + 1 < points.length / 3; k++) {
    const a = points.subarray(3 * k, 3 * k + 3), b = points.subarray(3 * k + 3, 3 * k + 6);
    for (const [end, side] of [[0, -1], [1, -1], [1, 1], [0, -1], [1, 1], [0, 1]]) out.push(...a, ...b, end, side, k + end);
  }
  return out;
}

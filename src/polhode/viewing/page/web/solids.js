const AXES = ["#d1495b", "#2a9d6f", "#3b6fb6"].map(rgb);
const IDENTITY = [1, 0, 0, 0, 1, 0, 0, 0, 1];
// Even steps in lightness, told apart by people of any colour vision; and two hues either side of zero.
const RISING = ["#31446b", "#3b6fb6", "#3f97b5", "#58b79b", "#a8cf6e", "#f2df5c"].map(rgb);
const SIGNED = ["#2f5d9e", "#7fa6d6", "#dfe3e8", "#e39a8f", "#b8323f"].map(rgb);

/** The colour of a value between limits; signed limits have zero in the middle. */
function tinted([low, high], value) {
  const signed = low < 0 && high > 0, stops = signed ? SIGNED : RISING, most = Math.max(-low, high);
  const s = signed ? 0.5 + 0.5 * value / most : (value - low) / (high - low || 1);
  const at = Math.min(Math.max(s, 0), 1) * (stops.length - 1), i = Math.min(Math.floor(at), stops.length - 2);
  return stops[i].map((c, n) => c + (at - i) * (stops[i + 1][n] - c));
}

function mixed(values, width, k) {
  const count = values.length / width, i = Math.min(Math.floor(k), count - 1), j = Math.min(i + 1, count - 1), s = k - i;
  const out = new Array(width);
  for (let c = 0; c < width; c++) out[c] = (1 - s) * values[i * width + c] + s * values[j * width + c];
  return out;
}
const triples = (flat) => Array.from({ length: flat.length / 3 }, (_, i) => flat.slice(3 * i, 3 * i + 3));

/** Bodies, tubes and arrows of one scene as coloured meshes with a place, for any frame. */
function makeSolids(meshes, scene, data, tone, meshOfFile) {
  const thin = 0.007 * scene.radius;
  const bodies = scene.bodies.map((body) => ({
    ...body, colour: tone(rgb(body.colour)), position: data.floats(body.position), quaternion: data.floats(body.quaternion),
    turn: [0, 1, 2].flatMap((j) => body.turn.map((row) => row[j])),
    mesh: body.mesh ? meshOfFile(body) : null,
  }));
  const lines = scene.lines.map((line) => ({
    ...line, colour: tone(rgb(line.colour)), places: data.floats(line.points),
    tints: line.tints.map((tint) => ({ ...tint, values: data.floats(tint.values) })),
  }));
  const arrows = scene.arrows.map((each) => ({ ...each, colour: tone(rgb(each.colour)), feet: data.floats(each.feet), vectors: data.floats(each.vectors) }));
  const longest = {};
  for (const each of arrows) longest[each.kind] = Math.max(longest[each.kind] ?? 0, each.longest);

  function stick(a, b, colour, width) {
    const axis = sub(b, a), [x, y, z] = frameOf(Math.hypot(...axis) > 0 ? axis : [0, 0, 1]);
    return { mesh: meshes.cylinder, size: [width, width, Math.hypot(...axis) || 1e-9], colour, marked: 0, at: along(a, 0.5, axis), R: [...x, ...y, ...z] };
  }
  const ball = (at, colour, width) => ({ mesh: meshes.ball, size: [width, width, width], colour, marked: 0, at, R: IDENTITY });

  function ofBody(body, k) {
    const q = mixed(body.quaternion, 4, k), n = Math.hypot(...q), pose = rotation(...q.map((x) => x / n));
    const x = mixed(body.position, 3, k), at = along(x, 1, turned(pose, body.at)), R = turnedBy(pose, body.turn);
    const { size, colour, name } = body, marked = body.marked ? 1 : 0;
    if (body.shape === "frame") return [0, 1, 2].map((i) => stick(at, along(at, size[i], R.slice(3 * i, 3 * i + 3)), AXES[i], thin));
    const whose = body.symbol ? "" : name;
    if (body.shape !== "capsule") return [{ mesh: body.mesh ?? meshes[body.shape], size, colour, marked, at, R, name: whose, pose: { x, R: pose } }];
    const d = size[0], inner = Math.max(size[2] - d, 0), end = (side) => along(at, side * inner / 2, R.slice(6, 9));
    return [
      { mesh: meshes.cylinder, size: [d, d, inner || 1e-9], colour, marked, at, R, name, pose: { x, R: pose } },
      ...[-1, 1].map((side) => ({ mesh: meshes.ellipsoid, size: [d, d, d], colour, marked, at: end(side), R })),
    ];
  }

  /** A helix between two points, with straight ends. */
  function coil([start, end]) {
    const axis = sub(end, start), length = Math.hypot(...axis), [x, y, z] = frameOf(length > 0 ? axis : [0, 0, 1]);
    const at = (s, turn, r) => along(along(along(start, s * length, z), r * Math.cos(turn), x), r * Math.sin(turn), y);
    const turns = 8, straight = 0.15, steps = 10 * turns;
    const helix = Array.from({ length: steps + 1 }, (_, i) => at(straight + (1 - 2 * straight) * i / steps, 2 * Math.PI * turns * i / steps, 4 * thin));
    return [start, at(straight, 0, 0), ...helix, at(1 - straight, 0, 0), end];
  }

  function ofLine(line, k, wanted) {
    const places = triples(mixed(line.places, 3 * line.count, k)), nodes = line.coil ? coil(places) : places, segments = nodes.length - 1;
    const tint = line.tints.find((each) => each.name === wanted?.name), width = line.radius ? 2 * line.radius : line.tints.length ? 2.2 * thin : thin;
    const values = tint ? mixed(tint.values, segments, k) : null;
    const colour = (i) => values ? tinted(wanted.limits, values[i]) : line.colour;
    const round = line.tints.length || line.radius ? width : 1.6 * width;
    return nodes.flatMap((node, i) => {
      const joint = ball(node, colour(Math.min(i, segments - 1)), round);
      return i ? [stick(nodes[i - 1], node, colour(i - 1), width), joint] : [joint];
    });
  }

  function ofArrows(each, k) {
    const feet = triples(mixed(each.feet, 3 * each.count, k)), vectors = triples(mixed(each.vectors, 3 * each.count, k));
    const scale = 0.45 * scene.radius / (longest[each.kind] || 1), width = 1.2 * thin;
    return vectors.flatMap((vector, i) => {
      const length = scale * Math.hypot(...vector);
      if (length < 2 * width) return [];
      const direction = unit(vector), head = Math.min(6 * width, 0.5 * length), neck = along(feet[i], length - head, direction);
      const shaft = stick(feet[i], neck, each.colour, width), tip = stick(neck, along(neck, head, direction), each.colour, 3.2 * width);
      return [shaft, { ...tip, mesh: meshes.cone }];
    });
  }

  /** All that is shown at frame k; `show` has the tint of tubes, the names of arrows, and whether symbols are drawn. */
  function at(k, show) {
    return [
      ...bodies.filter((body) => show.joints || !body.symbol).flatMap((body) => ofBody(body, k)),
      ...lines.flatMap((line) => ofLine(line, k, show.tint)),
      ...arrows.filter((each) => show.arrows.has(each.name)).flatMap((each) => ofArrows(each, k)),
    ];
  }
  return { at };
}

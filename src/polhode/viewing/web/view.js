const AXES = ["#d1495b", "#2a9d6f", "#3b6fb6"].map(rgb);

/** The three-dimensional view. `draw(k)` shows frame k, a fraction meaning a place between two frames. */
function makeView(canvas, triad, scene, floats) {
  const gl = canvas.getContext("webgl2", { antialias: true, alpha: true, stencil: true });
  if (!gl) return null;
  const solid = program(gl, SOLID_VERTEX, SOLID_FRAGMENT);
  const ribbon = program(gl, RIBBON_VERTEX, RIBBON_FRAGMENT);
  const grid = program(gl, GRID_VERTEX, GRID_FRAGMENT);
  const mesh = (numbers) => vertices(gl, solid, numbers, [["p", 3], ["n", 3]]);
  const meshes = { box: mesh(boxMesh()), ellipsoid: mesh(ellipsoidMesh()), cylinder: mesh(cylinderMesh()) };
  const plane = vertices(gl, grid, [-1, -1, 1, -1, 1, 1, -1, -1, 1, 1, -1, 1], [["p", 2]]);
  const trails = scene.trails.map((trail) => ({
    colour: rgb(trail.colour),
    count: trail.points[1] / 3,
    mesh: vertices(gl, ribbon, ribbonMesh(floats(trail.points)), [["a", 3], ["b", 3], ["corner", 3]]),
  }));
  const ofFiles = {};
  const bodies = scene.bodies.map((body) => ({
    ...body, colour: rgb(body.colour), position: floats(body.position), quaternion: floats(body.quaternion),
    turn: [0, 1, 2].flatMap((j) => body.turn.map((row) => row[j])),
    mesh: body.mesh ? ofFiles[[body.mesh, ...body.size]] ??= mesh(packedMesh(scene.meshes[body.mesh], body.size)) : null,
  }));
  const lines = scene.lines.map((line) => ({ ...line, colour: rgb(line.colour), places: floats(line.points) }));
  const [e1, e2, up] = frameOf(scene.up);
  const floor = scene.floor, radius = scene.radius, thin = 0.007 * radius;
  const start = { azimuth: 0.9, height: 0.38, distance: radius / Math.sin(0.3), target: scene.centre };
  const view = { ...start };

  function eyePlace() {
    const c = Math.cos(view.height), d = view.distance;
    let eye = along(view.target, d * c * Math.cos(view.azimuth), e1);
    eye = along(eye, d * c * Math.sin(view.azimuth), e2);
    return along(eye, d * Math.sin(view.height), up);
  }

  function mixed(values, width, k) {
    const count = values.length / width, i = Math.min(Math.floor(k), count - 1), j = Math.min(i + 1, count - 1), s = k - i;
    const out = new Array(width);
    for (let c = 0; c < width; c++) out[c] = (1 - s) * values[i * width + c] + s * values[j * width + c];
    return out;
  }

  function solidsAt(k) {
    const solids = bodies.flatMap((body) => {
      const q = mixed(body.quaternion, 4, k), n = Math.hypot(...q), R = rotation(...q.map((x) => x / n));
      return solidsOf(body, along(mixed(body.position, 3, k), 1, turned(R, body.at)), turnedBy(R, body.turn));
    });
    for (const line of lines) {
      const flat = mixed(line.places, 3 * line.count, k);
      const nodes = Array.from({ length: line.count }, (_, i) => flat.slice(3 * i, 3 * i + 3));
      nodes.forEach((node, i) => {
        solids.push({ mesh: meshes.ellipsoid, size: [1.6 * thin, 1.6 * thin, 1.6 * thin], colour: line.colour, marked: 0, at: node, R: [1, 0, 0, 0, 1, 0, 0, 0, 1] });
        if (i > 0) solids.push(rod(nodes[i - 1], node, line.colour));
      });
    }
    return solids;
  }

  function solidsOf(body, at, R) {
    const { size, colour } = body, marked = body.marked ? 1 : 0;
    if (body.shape === "frame") {
      return [0, 1, 2].map((i) => rod(at, along(at, size[i], R.slice(3 * i, 3 * i + 3)), AXES[i]));
    }
    if (body.shape !== "capsule") return [{ mesh: body.mesh ?? meshes[body.shape], size, colour, marked, at, R }];
    const d = size[0], inner = Math.max(size[2] - d, 0), end = (side) => along(at, side * inner / 2, R.slice(6, 9));
    return [
      { mesh: meshes.cylinder, size: [d, d, inner || 1e-9], colour, marked, at, R },
      ...[-1, 1].map((side) => ({ mesh: meshes.ellipsoid, size: [d, d, d], colour, marked, at: end(side), R })),
    ];
  }

  function rod(a, b, colour) {
    const axis = sub(b, a), [x, y, z] = frameOf(Math.hypot(...axis) > 0 ? axis : [0, 0, 1]);
    return { mesh: meshes.cylinder, size: [thin, thin, Math.hypot(...axis) || 1e-9], colour, marked: 0, at: along(a, 0.5, axis), R: [...x, ...y, ...z] };
  }

  function drawSolids(camera, eye, solids, shadow) {
    const u = solid.uniforms;
    gl.useProgram(solid.made);
    gl.uniformMatrix4fv(u.camera, false, camera);
    gl.uniform3fv(u.up, up); gl.uniform3fv(u.eye, eye); gl.uniform1f(u.floor_, floor); gl.uniform1f(u.shadow, shadow);
    for (const s of solids) {
      gl.uniformMatrix3fv(u.R, false, s.R);
      gl.uniform3fv(u.size, s.size); gl.uniform3fv(u.at, s.at); gl.uniform3fv(u.colour, s.colour); gl.uniform1f(u.marked, s.marked);
      gl.bindVertexArray(s.mesh.array);
      gl.drawArrays(gl.TRIANGLES, 0, s.mesh.count);
    }
  }

  function drawGrid(camera) {
    const u = grid.uniforms, centre = along(scene.centre, floor - dot(up, scene.centre), up), reach = 5 * radius;
    gl.useProgram(grid.made);
    gl.uniformMatrix4fv(u.camera, false, camera);
    gl.uniform3fv(u.centre, centre); gl.uniform3fv(u.e1, e1); gl.uniform3fv(u.e2, e2);
    gl.uniform2f(u.origin, dot(centre, e1), dot(centre, e2));
    gl.uniform1f(u.reach, reach); gl.uniform1f(u.spacing, niceStep(radius, 5)); gl.uniform3fv(u.colour, rgb(cssColour("--grid")));
    gl.bindVertexArray(plane.array);
    gl.drawArrays(gl.TRIANGLES, 0, plane.count);
  }

  function drawShadows(camera, eye, solids) {
    // The stencil lets each pixel be darkened once, however many bodies are above it.
    gl.enable(gl.STENCIL_TEST);
    gl.stencilFunc(gl.EQUAL, 0, 255);
    gl.stencilOp(gl.KEEP, gl.KEEP, gl.INCR);
    drawSolids(camera, eye, solids, 1);
    gl.disable(gl.STENCIL_TEST);
  }

  function drawTrails(camera, k) {
    const u = ribbon.uniforms;
    gl.useProgram(ribbon.made);
    gl.uniformMatrix4fv(u.camera, false, camera);
    gl.uniform2f(u.screen, canvas.width, canvas.height); gl.uniform1f(u.width, 2.4 * devicePixelRatio); gl.uniform1f(u.now, k);
    for (const trail of trails) {
      gl.uniform1f(u.count, trail.count); gl.uniform3fv(u.colour, trail.colour);
      gl.bindVertexArray(trail.mesh.array);
      gl.drawArrays(gl.TRIANGLES, 0, trail.mesh.count);
    }
  }

  function drawTriad(matrix) {
    const c = triad.getContext("2d");
    c.clearRect(0, 0, 160, 160);
    c.lineWidth = 4; c.font = "600 22px system-ui, sans-serif"; c.textAlign = "center"; c.textBaseline = "middle"; c.lineCap = "round";
    const axes = [0, 1, 2].map((i) => ({ name: "xyz"[i], colour: `rgb(${AXES[i].map((c) => 255 * c)})`, x: matrix[4 * i], y: -matrix[4 * i + 1], z: matrix[4 * i + 2] }));
    for (const a of axes.sort((a, b) => a.z - b.z)) {
      c.strokeStyle = c.fillStyle = a.colour;
      c.beginPath(); c.moveTo(80, 80); c.lineTo(80 + 50 * a.x, 80 + 50 * a.y); c.stroke();
      c.fillText(a.name, 80 + 66 * a.x, 80 + 66 * a.y);
    }
  }

  function draw(k) {
    const w = Math.round(canvas.clientWidth * devicePixelRatio), h = Math.round(canvas.clientHeight * devicePixelRatio);
    if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h; }
    const eye = eyePlace(), look = lookAt(eye, view.target, up), d = view.distance;
    const camera = multiply(perspective(0.6 * Math.max(1, h / w), w / h, 0.02 * d, d + 12 * radius), look);
    const solids = solidsAt(k);
    gl.viewport(0, 0, w, h);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT | gl.STENCIL_BUFFER_BIT);
    gl.enable(gl.BLEND);
    gl.blendFuncSeparate(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA, gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    gl.disable(gl.DEPTH_TEST);
    drawGrid(camera);
    if (view.height > 0) drawShadows(camera, eye, solids);
    gl.enable(gl.DEPTH_TEST);
    drawSolids(camera, eye, solids, 0);
    drawTrails(camera, k);
    drawTriad(look);
  }

  function orbit(dx, dy) {
    view.azimuth -= 0.008 * dx;
    view.height = Math.max(-1.5, Math.min(1.5, view.height + 0.008 * dy));
  }
  function pan(dx, dy) {
    const look = lookAt(eyePlace(), view.target, up), s = view.distance * 0.6 / canvas.clientHeight;
    view.target = along(along(view.target, -s * dx, [look[0], look[4], look[8]]), s * dy, [look[1], look[5], look[9]]);
  }
  const zoom = (factor) => { view.distance = Math.max(0.05 * radius, Math.min(60 * radius, view.distance * factor)); };
  const reset = () => Object.assign(view, start);
  return { draw, orbit, pan, zoom, reset };
}

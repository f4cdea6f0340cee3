/** One three-dimensional view of some layers, a layer for each run; views that are linked share their `camera`. */
function makeView(canvas, triad, camera) {
  const gl = canvas.getContext("webgl2", { antialias: true, alpha: true, stencil: true, preserveDrawingBuffer: false });
  if (!gl) return null;
  const solid = program(gl, SOLID_VERTEX, SOLID_FRAGMENT);
  const ribbon = program(gl, RIBBON_VERTEX, RIBBON_FRAGMENT);
  const grid = program(gl, GRID_VERTEX, GRID_FRAGMENT);
  const mesh = (numbers) => vertices(gl, solid, numbers, [["p", 3], ["n", 3]]);
  const meshes = {
    box: mesh(boxMesh()), ellipsoid: mesh(ellipsoidMesh()), ball: mesh(ellipsoidMesh(12, 18)),
    cylinder: mesh(cylinderMesh()), cone: mesh(coneMesh()),
  };
  const plane = vertices(gl, grid, [-1, -1, 1, -1, 1, 1, -1, -1, 1, 1, -1, 1], [["p", 2]]);
  const clouds = makeClouds(gl);
  let layers = [], ground = null, made = [];

  /** Takes layers of `scene`, `data` and `tone` in place of those before. */
  function load(wanted) {
    for (const old of made) old.free();
    made = [];
    const kept = (thing) => { made.push(thing); return thing; }, ofFiles = {};
    layers = wanted.map(({ scene, data, tone }) => ({
      solids: makeSolids(meshes, scene, data, tone, (body) => ofFiles[[body.mesh, ...body.size]] ??= kept(mesh(packedMesh(scene.meshes[body.mesh], body.size)))),
      clouds: scene.clouds.map((cloud) => kept(clouds.load(cloud, data, tone))),
      trails: scene.trails.map((trail) => ({
        colour: tone(rgb(trail.colour)),
        count: trail.points[1] / 3,
        mesh: kept(vertices(gl, ribbon, ribbonMesh(data.floats(trail.points)), [["a", 3], ["b", 3], ["corner", 3]])),
      })),
    }));
    const [first] = wanted.map((layer) => layer.scene), [e1, e2, up] = frameOf(first.up);
    ground = { e1, e2, up, floor: Math.min(...wanted.map((layer) => layer.scene.floor)), centre: camera.home.target, radius: camera.home.radius };
  }

  function drawSolids(matrix, eye, solids, shadow) {
    const u = solid.uniforms;
    gl.useProgram(solid.made);
    gl.uniformMatrix4fv(u.camera, false, matrix);
    gl.uniform3fv(u.up, ground.up); gl.uniform3fv(u.eye, eye); gl.uniform1f(u.floor_, ground.floor); gl.uniform1f(u.shadow, shadow);
    for (const s of solids) {
      gl.uniformMatrix3fv(u.R, false, s.R);
      gl.uniform3fv(u.size, s.size); gl.uniform3fv(u.at, s.at); gl.uniform3fv(u.colour, s.colour); gl.uniform1f(u.marked, s.marked);
      gl.bindVertexArray(s.mesh.array);
      gl.drawArrays(gl.TRIANGLES, 0, s.mesh.count);
    }
  }

  function drawGrid(matrix) {
    const u = grid.uniforms, { e1, e2, up, radius } = ground;
    const centre = along(ground.centre, ground.floor - dot(up, ground.centre), up), reach = 5 * radius;
    gl.useProgram(grid.made);
    gl.uniformMatrix4fv(u.camera, false, matrix);
    gl.uniform3fv(u.centre, centre); gl.uniform3fv(u.e1, e1); gl.uniform3fv(u.e2, e2);
    gl.uniform2f(u.origin, dot(centre, e1), dot(centre, e2));
    gl.uniform1f(u.reach, reach); gl.uniform1f(u.spacing, niceStep(radius, 5)); gl.uniform3fv(u.colour, rgb(cssColour("--grid")));
    gl.bindVertexArray(plane.array);
    gl.drawArrays(gl.TRIANGLES, 0, plane.count);
  }

  /** The stencil lets each pixel be darkened once, however many bodies are above it. */
  function drawShadows(matrix, eye, shown) {
    gl.enable(gl.STENCIL_TEST);
    gl.stencilFunc(gl.EQUAL, 0, 255);
    gl.stencilOp(gl.KEEP, gl.KEEP, gl.INCR);
    shown(1);
    gl.disable(gl.STENCIL_TEST);
  }

  function drawTrails(matrix, trails, k) {
    const u = ribbon.uniforms;
    gl.useProgram(ribbon.made);
    gl.uniformMatrix4fv(u.camera, false, matrix);
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
    const axes = [0, 1, 2].map((i) => ({ name: "xyz"[i], colour: `rgb(${AXES[i].map((x) => 255 * x)})`, x: matrix[4 * i], y: -matrix[4 * i + 1], z: matrix[4 * i + 2] }));
    for (const a of axes.sort((a, b) => a.z - b.z)) {
      c.strokeStyle = c.fillStyle = a.colour;
      c.beginPath(); c.moveTo(80, 80); c.lineTo(80 + 50 * a.x, 80 + 50 * a.y); c.stroke();
      c.fillText(a.name, 80 + 66 * a.x, 80 + 66 * a.y);
    }
  }

  /** Draws each layer at its own frame, a fraction meaning a place between two; returns what was drawn. */
  function draw(frames, show, sparse) {
    const w = Math.round(canvas.clientWidth * devicePixelRatio), h = Math.round(canvas.clientHeight * devicePixelRatio);
    if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h; }
    const eye = camera.eye(), look = camera.look(), lens = camera.lens(w, h), matrix = multiply(lens, look);
    const solids = layers.map((layer, i) => layer.solids.at(frames[i], show));
    const everything = (shadow) => layers.forEach((layer, i) => {
      drawSolids(matrix, eye, solids[i], shadow);
      clouds.draw(layer.clouds, frames[i], { look, lens, tall: h }, ground, sparse, shadow);
    });
    gl.viewport(0, 0, w, h);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT | gl.STENCIL_BUFFER_BIT);
    gl.enable(gl.BLEND);
    gl.blendFuncSeparate(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA, gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    gl.disable(gl.DEPTH_TEST);
    if (show.ground) {
      drawGrid(matrix);
      if (dot(eye, ground.up) > ground.floor) drawShadows(matrix, eye, everything);
    }
    gl.enable(gl.DEPTH_TEST);
    everything(0);
    if (show.traces) layers.forEach((layer, i) => drawTrails(matrix, layer.trails, frames[i]));
    drawTriad(look);
    return solids;
  }
  return { load, draw };
}

/** Where some views are seen from: around a target, at a distance; `home` is where it begins. */
function makeCamera() {
  const camera = { home: null, azimuth: 0.9, height: 0.38, distance: 1, target: [0, 0, 0] };
  let frame = frameOf([0, 0, 1]);
  camera.enclose = (scenes) => {
    const target = [0, 1, 2].map((i) => scenes.reduce((sum, scene) => sum + scene.centre[i], 0) / scenes.length);
    const radius = Math.max(...scenes.map((scene) => Math.hypot(...sub(scene.centre, target)) + scene.radius));
    const fresh = camera.home === null;
    camera.home = { target, radius, distance: radius / Math.sin(0.3) };
    frame = frameOf(scenes[0].up);
    if (fresh) camera.reset();
  };
  camera.reset = () => Object.assign(camera, { azimuth: 0.9, height: 0.38, distance: camera.home.distance, target: camera.home.target });
  camera.eye = () => {
    const c = Math.cos(camera.height), d = camera.distance, [e1, e2, up] = frame;
    const level = along(along(camera.target, d * c * Math.cos(camera.azimuth), e1), d * c * Math.sin(camera.azimuth), e2);
    return along(level, d * Math.sin(camera.height), up);
  };
  camera.look = () => lookAt(camera.eye(), camera.target, frame[2]);
  camera.lens = (w, h) => perspective(0.6 * Math.max(1, h / w), w / h, 0.02 * camera.distance, camera.distance + 12 * camera.home.radius);
  camera.orbit = (dx, dy) => {
    camera.azimuth -= 0.008 * dx;
    camera.height = Math.max(-1.5, Math.min(1.5, camera.height + 0.008 * dy));
  };
  camera.pan = (dx, dy, height) => {
    const look = camera.look(), s = camera.distance * 0.6 / height;
    camera.target = along(along(camera.target, -s * dx, [look[0], look[4], look[8]]), s * dy, [look[1], look[5], look[9]]);
  };
  camera.zoom = (factor) => { camera.distance = Math.max(0.05 * camera.home.radius, Math.min(60 * camera.home.radius, camera.distance * factor)); };
  return camera;
}

const MANY = 20000;

/** Clouds of spheres. Both frames that a time lies between are mixed by the shader. */
function makeClouds(gl) {
  const corners = gl.createBuffer();
  gl.bindBuffer(gl.ARRAY_BUFFER, corners);
  gl.bufferData(gl.ARRAY_BUFFER, new Float32Array([-1, -1, 1, -1, -1, 1, 1, 1]), gl.STATIC_DRAW);
  const shaders = new Map();

  /** The program for few spheres or for many, with the places of its attributes. */
  function shaderFor(many) {
    if (!shaders.has(many)) {
      const shader = program(gl, SPHERE_VERTEX(many), SPHERE_FRAGMENT(many));
      shader.place = Object.fromEntries(["corner", "a", "b", "diameter"].map((name) => [name, gl.getAttribLocation(shader.made, name)]));
      shaders.set(many, shader);
    }
    return shaders.get(many);
  }

  function filled(numbers) {
    const buffer = gl.createBuffer();
    gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
    gl.bufferData(gl.ARRAY_BUFFER, numbers, gl.STATIC_DRAW);
    return buffer;
  }

  function load(cloud, data, tone) {
    const many = cloud.count > MANY, shader = shaderFor(many), { place } = shader;
    const array = gl.createVertexArray(), points = filled(data.shorts(cloud.points)), sizes = filled(data.floats(cloud.diameters));
    gl.bindVertexArray(array);
    if (!many) {
      gl.bindBuffer(gl.ARRAY_BUFFER, corners);
      gl.enableVertexAttribArray(place.corner);
      gl.vertexAttribPointer(place.corner, 2, gl.FLOAT, false, 0, 0);
    }
    for (const name of ["a", "b", "diameter"]) {
      gl.enableVertexAttribArray(place[name]);
      gl.vertexAttribDivisor(place[name], many ? 0 : 1);
    }
    const free = () => { gl.deleteVertexArray(array); gl.deleteBuffer(points); gl.deleteBuffer(sizes); };
    return { ...cloud, many, shader, array, points, sizes, free, low: cloud.points.low, span: cloud.points.span, colour: tone(rgb(cloud.colour)), frames: cloud.points.count / (3 * cloud.count) };
  }

  /** Every `sparse`-th sphere of the clouds at frame k. */
  function draw(clouds, k, camera, ground, sparse, shadow) {
    for (const cloud of clouds) {
      if (shadow && cloud.many) continue;
      const { place, uniforms: u, made } = cloud.shader;
      gl.useProgram(made);
      gl.uniformMatrix4fv(u.look, false, camera.look); gl.uniformMatrix4fv(u.lens, false, camera.lens);
      gl.uniform3fv(u.up, ground.up); gl.uniform3fv(u.e1 ?? null, ground.e1); gl.uniform3fv(u.e2 ?? null, ground.e2);
      gl.uniform1f(u.floor_ ?? null, ground.floor); gl.uniform1f(u.shadow ?? null, shadow); gl.uniform1f(u.tall ?? null, camera.tall);
      const i = Math.min(Math.floor(k), cloud.frames - 1), j = Math.min(i + 1, cloud.frames - 1), bytes = 6 * cloud.count;
      gl.bindVertexArray(cloud.array);
      gl.bindBuffer(gl.ARRAY_BUFFER, cloud.points);
      gl.vertexAttribPointer(place.a, 3, gl.UNSIGNED_SHORT, true, 6 * sparse, i * bytes);
      gl.vertexAttribPointer(place.b, 3, gl.UNSIGNED_SHORT, true, 6 * sparse, j * bytes);
      gl.bindBuffer(gl.ARRAY_BUFFER, cloud.sizes);
      gl.vertexAttribPointer(place.diameter, 1, gl.FLOAT, false, 4 * sparse, 0);
      gl.uniform3fv(u.low, cloud.low); gl.uniform3fv(u.span, cloud.span); gl.uniform3fv(u.colour, cloud.colour);
      gl.uniform1f(u.part, k - i);
      const count = Math.floor((cloud.count - 1) / sparse) + 1;
      if (cloud.many) gl.drawArrays(gl.POINTS, 0, count); else gl.drawArraysInstanced(gl.TRIANGLE_STRIP, 0, 4, count);
    }
  }
  return { load, draw };
}

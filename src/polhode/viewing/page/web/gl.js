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
  const array = gl.createVertexArray(), stride = layout.reduce((sum, [, n]) => sum + n, 0), buffer = gl.createBuffer();
  gl.bindVertexArray(array);
  gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
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
  const free = () => { gl.deleteVertexArray(array); gl.deleteBuffer(buffer); };
  return { array, count: numbers.length / stride, free };
}

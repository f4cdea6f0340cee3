// In ms; and of how many spheres one is drawn at most, but not where they are few.
const SLOW = 48, PATIENCE = 500, SPARSEST = 32, FEW = 1000;
// The second run where two are in one view: one colour, so that each part is seen to be of it.
const OTHER = rgb("#e08a1e");
const PLAIN = (colour) => colour;
const TONES = [PLAIN, (colour) => colour.map((c, i) => 0.25 * c + 0.75 * OTHER[i])];

/** The views of all runs, what is shown in them, and the camera that they share. */
function makeStage(changed) {
  const camera = makeCamera(), views = [];
  const show = { tint: null, arrows: new Set(), traces: true, joints: true, ground: true, side: false };
  let runs = [], sparse = 1, slow = 0, before = Infinity, drawn = [];

  function pane() {
    const made = element("div", "", "pane"), canvas = element("canvas", "", "view"), triad = element("canvas", "", "triad"), name = element("p", "", "name");
    canvas.tabIndex = 0;
    canvas.ariaLabel = "Three-dimensional view; drag to orbit, wheel to zoom";
    triad.width = triad.height = 160;
    made.append(canvas, triad, name);
    $("views").append(made);
    const view = makeView(canvas, triad, camera);
    if (!view) { made.remove(); return null; }
    follow(canvas);
    return { made, canvas, name, view };
  }

  /** Takes runs with a scene. Returns false where the browser can't draw them. */
  function load(wanted) {
    runs = wanted;
    camera.enclose(runs.map((run) => run.scene));
    while (views.length < runs.length) {
      const made = pane();
      if (!made) return false;
      views.push(made);
    }
    arrange();
    options();
    return true;
  }

  function layers() {
    return show.side ? runs.map((run) => [run]) : [runs];
  }
  function arrange() {
    layers().forEach((some, i) => {
      views[i].view.load(some.map((run) => ({ scene: run.scene, data: run.data, tone: TONES[show.side ? 0 : runs.indexOf(run) % 2] })));
      views[i].name.textContent = show.side ? some[0].label : "";
    });
    views.forEach(({ made }, i) => { made.hidden = i >= layers().length; });
    legend();
    changed();
  }

  function legend() {
    const entries = runs.length > 1 && !show.side
      ? runs.map((run, i) => ({ name: run.label, colour: i ? "#e08a1e" : run.scene.legend[0]?.colour ?? "#4477aa" }))
      : runs[0].scene.legend;
    const arrows = runs[0].scene.arrows.filter((each) => show.arrows.has(each.name));
    $("legend").replaceChildren(...[...entries, ...arrows.map(arrowEntry)].map(({ name, colour }) => {
      const item = element("li", name), mark = element("i");
      mark.style.background = colour;
      item.append(mark);
      return item;
    }));
    const { tint } = show;
    $("scale").hidden = !tint;
    if (!tint) return;
    $("scale-name").textContent = tint.unit ? `${tint.name} in ${tint.unit}` : tint.name;
    const most = Math.max(-tint.limits[0], tint.limits[1]), [low, high] = tint.limits[0] < 0 && tint.limits[1] > 0 ? [-most, most] : tint.limits;
    $("scale-low").textContent = short(+low.toPrecision(3)); $("scale-high").textContent = short(+high.toPrecision(3));
    const c = $("scale-bar").getContext("2d");
    for (let x = 0; x < 120; x++) {
      c.fillStyle = `rgb(${tinted(tint.limits, low + (high - low) * x / 119).map((v) => 255 * v)})`;
      c.fillRect(x, 0, 1, 10);
    }
  }
  const arrowEntry = (each) => ({ name: `${each.name}, longest ${short(+each.longest.toPrecision(3))}${each.unit ? ` ${each.unit}` : ""}`, colour: each.colour });

  function options() {
    const tints = new Map();
    for (const line of runs.flatMap((run) => run.scene.lines)) for (const tint of line.tints) {
      const known = tints.get(tint.name)?.limits ?? tint.limits;
      tints.set(tint.name, { name: tint.name, unit: tint.unit, limits: [Math.min(known[0], tint.limits[0]), Math.max(known[1], tint.limits[1])] });
    }
    show.tint = tints.get(show.tint?.name) ?? null;
    const made = [];
    const tick = (text, checked, act) => {
      const label = element("label"), box = element("input");
      box.type = "checkbox"; box.checked = checked;
      box.onchange = () => { act(box.checked); legend(); changed(); };
      label.append(box, ` ${text}`);
      made.push(label);
    };
    if (runs.length > 1) tick("side by side", show.side, (on) => { show.side = on; arrange(); });
    if (tints.size) {
      const label = element("label", "tubes "), choice = element("select");
      for (const name of ["plain", ...tints.keys()]) choice.append(element("option", name));
      choice.value = show.tint?.name ?? "plain";
      choice.onchange = () => { show.tint = tints.get(choice.value) ?? null; legend(); changed(); };
      label.append(choice);
      made.push(label);
    }
    if (runs.some((run) => run.scene.trails.length)) tick("traces", show.traces, (on) => { show.traces = on; });
    if (runs.some((run) => run.scene.bodies.some((body) => body.symbol))) tick("joints and supports", show.joints, (on) => { show.joints = on; });
    tick("ground and shadows", show.ground, (on) => { show.ground = on; });
    for (const name of new Set(runs.flatMap((run) => run.scene.arrows.map((each) => each.name)))) {
      tick(name, show.arrows.has(name), (on) => { if (on) show.arrows.add(name); else show.arrows.delete(name); });
    }
    $("options").replaceChildren(...made);
    legend();
  }

  function follow(canvas) {
    const pointers = new Map();
    canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); pointers.set(event.pointerId, event); });
    canvas.addEventListener("pointermove", (event) => {
      const old = pointers.get(event.pointerId);
      if (!old) return;
      const dx = event.clientX - old.clientX, dy = event.clientY - old.clientY;
      if (pointers.size === 2) {
        const other = [...pointers.values()].find((p) => p.pointerId !== event.pointerId);
        const gap = (p) => Math.hypot(p.clientX - other.clientX, p.clientY - other.clientY) || 1;
        camera.zoom(gap(old) / gap(event));
      } else if (event.shiftKey || event.buttons & 6) camera.pan(dx, dy, canvas.clientHeight);
      else camera.orbit(dx, dy);
      pointers.set(event.pointerId, event);
      changed();
    });
    for (const kind of ["pointerup", "pointercancel"]) canvas.addEventListener(kind, (event) => pointers.delete(event.pointerId));
    canvas.addEventListener("wheel", (event) => { event.preventDefault(); camera.zoom(Math.exp(0.0012 * event.deltaY)); changed(); }, { passive: false });
    canvas.addEventListener("contextmenu", (event) => event.preventDefault());
    canvas.addEventListener("dblclick", () => { camera.reset(); changed(); });
  }

  /** Draws everything; `frames` are those of the runs. */
  function draw(frames) {
    drawn = layers().map((some, i) => views[i].view.draw(some.map((run) => frames[runs.indexOf(run)]), show, sparse));
  }

  /** Draws fewer spheres where pictures come too slowly; `took` is the time between two of them, in ms. */
  function pace(took) {
    const most = Math.max(0, ...runs.flatMap((run) => run.scene.clouds.map((cloud) => cloud.count)));
    slow = took > SLOW ? slow + took : 0;
    // Half a second of slow pictures, at least two, is no hiccup.
    if (slow < PATIENCE || slow === took || sparse >= SPARSEST || most / sparse < FEW) return;
    // Where fewer spheres have not helped, it is something else that takes the time.
    if (took > 0.8 * before) return;
    before = took;
    sparse = Math.min(SPARSEST, sparse * 2 ** Math.max(1, Math.floor(Math.log2(took / SLOW))));
    slow = 0;
    word();
  }
  const nth = (n) => `${n}${n % 100 > 10 && n % 100 < 14 ? "th" : ["th", "st", "nd", "rd"][n % 10] ?? "th"}`;
  function word() {
    const clouds = runs.flatMap((run) => run.scene.clouds), all = clouds.reduce((sum, cloud) => sum + cloud.of, 0);
    const each = sparse * Math.max(1, ...clouds.map((cloud) => cloud.stride));
    $("word").textContent = each > 1 && all ? `Every ${nth(each)} of ${all.toLocaleString("en")} particles is drawn, to keep the motion smooth.` : "";
  }

  /** Position and rotation (rows) of each named body of the first run as they were drawn last. */
  const poses = () => Object.fromEntries((drawn[0]?.[0] ?? []).filter((s) => s.name).map(({ name, pose }) => [name, { x: pose.x, R: [0, 1, 2].map((i) => [0, 3, 6].map((j) => pose.R[i + j])) }]));
  return { load, draw, pace, word, poses, camera, show, arrange, options };
}

const run = JSON.parse(document.getElementById("run").textContent);
const bytes = Uint8Array.from(atob(document.getElementById("data").textContent), (c) => c.charCodeAt(0));
const all = new Float32Array(bytes.buffer);
const floats = ([offset, count]) => all.subarray(offset, offset + count);
const $ = (id) => document.getElementById(id);
const element = (tag, text, className) => {
  const made = document.createElement(tag);
  made.textContent = text;
  if (className) made.className = className;
  return made;
};

$("title").textContent = run.title;
$("subtitle").textContent = run.subtitle;
$("badge").textContent = run.badge.text;
$("badge").className = run.badge.good ? "ok" : "bad";
for (const [name, text] of run.facts) $("facts").append(element("dt", name), element("dd", text));

const table = document.createElement("table"), head = document.createElement("tr");
const verdict = run.audit.headings.length - 1;
run.audit.headings.forEach((text, i) => head.append(element("th", text, i > 1 && i < verdict ? "n" : "")));
table.append(head);
for (const cells of run.audit.rows) {
  const row = document.createElement("tr");
  cells.forEach((text, i) => row.append(element("td", text, i === verdict ? text.split(" ")[0] : i > 1 ? "n" : "")));
  table.append(row);
}
$("audit").append(table, ...run.audit.remarks.map((text) => element("p", text, "remark")));

const times = floats(run.times), first = times[0], last = times[times.length - 1], span = last - first || 1;
const still = !run.scene;
document.body.classList.toggle("still", still);
const view = still ? null : makeView($("view"), $("triad"), run.scene, floats);
if (!still && !view) { $("nogl").hidden = false; $("hint").hidden = true; }
if (view) for (const part of run.scene.legend) {
  const item = element("li", part.name), mark = document.createElement("i");
  mark.style.background = part.colour;
  item.append(mark);
  $("legend").append(item);
}

// A motion of 3 to 30 time units plays in real time, others in 12 seconds.
const pace = span >= 3 && span <= 30 ? 1 : span / 12;
$("pace").textContent = pace === 1 ? "1 unit of time a second" : `${short(pace)} units of time a second`;
const state = { time: first, playing: false, dirty: true };

function seek(time) {
  if (time !== null) { state.time = Math.min(Math.max(time, first), last); }
  state.dirty = true;
}
function play(on) {
  state.playing = on;
  if (on && state.time >= last) state.time = first;
  $("play").textContent = on ? "❚❚" : "▶";
}
function frameOfTime(time) {
  let i = 0, j = times.length - 1;
  if (j === 0) return 0;
  while (j - i > 1) { const m = (i + j) >> 1; if (times[m] <= time) i = m; else j = m; }
  return i + Math.min(Math.max((time - times[i]) / (times[j] - times[i] || 1), 0), 1);
}

const charts = run.charts.map((chart) => {
  const card = element("section", "", "panel chart");
  $("charts").append(card);
  return makeChart(card, chart, floats, run.colours, seek);
});
function repaint() { for (const chart of charts) chart.paint(); state.dirty = true; }

function theme(name) {
  document.documentElement.dataset.theme = name;
  repaint();
}
const otherTheme = () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");

let before = performance.now();
function tick(now) {
  const elapsed = Math.min(now - before, 100) / 1000;
  before = now;
  if (state.playing) {
    state.time += elapsed * pace * Number($("speed").value);
    if (state.time >= last) { state.time = last; play(false); }
    state.dirty = true;
  }
  if (state.dirty) {
    state.dirty = false;
    $("slider").value = (state.time - first) / span;
    $("clock").textContent = `t = ${short(+state.time.toPrecision(5))}`;
    if (view) view.draw(frameOfTime(state.time));
    for (const chart of charts) chart.cursor(state.time);
  }
  requestAnimationFrame(tick);
}

$("play").onclick = () => play(!state.playing);
$("slider").oninput = (event) => { play(false); seek(first + span * event.target.value); };
$("theme").onclick = otherTheme;
addEventListener("resize", repaint);
addEventListener("keydown", (event) => {
  if (event.target.matches("select") || event.ctrlKey || event.metaKey || event.altKey) return;
  const step = span / (event.shiftKey ? 20 : 200);
  const actions = {
    " ": () => play(!state.playing), ArrowRight: () => { play(false); seek(state.time + step); },
    ArrowLeft: () => { play(false); seek(state.time - step); }, Home: () => seek(first), End: () => seek(last),
    r: () => view?.reset(), t: otherTheme, "+": () => view?.zoom(0.85), "-": () => view?.zoom(1.18),
  };
  const act = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!act) return;
  event.preventDefault();
  act();
  state.dirty = true;
});

if (view) {
  const pointers = new Map(), stage = $("view");
  stage.addEventListener("pointerdown", (event) => { stage.setPointerCapture(event.pointerId); pointers.set(event.pointerId, event); });
  stage.addEventListener("pointermove", (event) => {
    const old = pointers.get(event.pointerId);
    if (!old) return;
    const dx = event.clientX - old.clientX, dy = event.clientY - old.clientY;
    if (pointers.size === 2) {
      const other = [...pointers.values()].find((p) => p.pointerId !== event.pointerId);
      const gap = (p) => Math.hypot(p.clientX - other.clientX, p.clientY - other.clientY) || 1;
      view.zoom(gap(old) / gap(event));
    } else if (event.shiftKey || event.buttons & 6) view.pan(dx, dy);
    else view.orbit(dx, dy);
    pointers.set(event.pointerId, event);
    state.dirty = true;
  });
  for (const kind of ["pointerup", "pointercancel"]) stage.addEventListener(kind, (event) => pointers.delete(event.pointerId));
  stage.addEventListener("wheel", (event) => { event.preventDefault(); view.zoom(Math.exp(0.0012 * event.deltaY)); state.dirty = true; }, { passive: false });
  stage.addEventListener("contextmenu", (event) => event.preventDefault());
  stage.addEventListener("dblclick", () => { view.reset(); state.dirty = true; });
}

// `page.html#t=0.5&theme=dark` opens at a part of the span and in a theme, for links and pictures.
const wanted = new URLSearchParams(location.hash.slice(1));
theme(wanted.get("theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
if (wanted.has("t")) seek(first + span * Number(wanted.get("t")));
else if (view && !matchMedia("(prefers-reduced-motion: reduce)").matches) play(true);
requestAnimationFrame(tick);

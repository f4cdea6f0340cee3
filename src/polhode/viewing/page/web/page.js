let dirty = true, drawn = 0, runs = [], hovered = null, readings = {};
const touch = () => { dirty = true; };
const clock = makeClock(), stage = makeStage(touch);
const seek = (time) => { clock.play(false); clock.following = false; clock.seek(time); hovered = null; touch(); };
const plots = makePlots({ seek, hover: (time) => { hovered = time; touch(); }, changed: touch });

/** Numbers in a block of bytes: places are in bytes. */
const reader = (buffer) => ({
  floats: ([place, count]) => new Float32Array(buffer, place, count),
  shorts: ({ place, count }) => new Uint16Array(buffer, place, count),
});

/** Shows some runs, the first time or in place of what they were before. */
function load(shown, buffer, live) {
  const data = reader(buffer);
  runs = shown.runs.map((run) => ({ ...run, data, moments: data.floats(run.times) }));
  const [first] = runs, several = runs.length > 1;
  document.title = `${runs.map((run) => run.title).join(" · ")} · polhode`;
  $("title").textContent = several ? runs.map((run) => run.label).join(" and ") : first.title;
  $("subtitle").textContent = several ? "two runs compared" : first.subtitle;
  $("badge").textContent = live ? "running" : [...new Set(runs.map((run) => run.badge.text))].join(" · ");
  $("badge").className = live ? "live" : runs.every((run) => run.badge.good) ? "ok" : "bad";
  $("reports").replaceChildren(...runs.flatMap((run) => reportOf(run, several)));
  const moving = runs.filter((run) => run.scene);
  document.body.classList.toggle("still", !moving.length);
  document.body.classList.toggle("start", runs.every((run) => run.moments.length === 1));
  if (moving.length && !stage.load(moving)) { $("nogl").hidden = false; $("hint").hidden = true; runs.forEach((run) => { run.scene = null; }); }
  clock.load(Math.min(...runs.map((run) => run.moments[0])), Math.max(...runs.map((run) => run.moments.at(-1))), first.unit, live);
  plots.load(runs, shown.colours);
  stage.word();
  touch();
}

function theme(name) {
  document.documentElement.dataset.theme = name;
  plots.paint();
  touch();
}
const otherTheme = () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");

let before = performance.now();
function tick(now) {
  const moved = clock.advance((now - before) / 1000), moving = runs.filter((run) => run.scene);
  if (moved) { touch(); if (moving.length) stage.pace(now - before); }
  before = now;
  if (dirty && runs.length) {
    dirty = false;
    clock.show();
    if (moving.length) stage.draw(moving.map((run) => frameOfTime(run.moments, clock.time)));
    readings = plots.cursor(hovered ?? clock.time);
    drawn += 1;
  }
  requestAnimationFrame(tick);
}

$("play").onclick = () => clock.play(!clock.playing);
$("slider").oninput = (event) => seek(clock.at(event.target.value));
$("theme").onclick = otherTheme;
$("speed").onchange = clock.told;
addEventListener("resize", () => { plots.paint(); touch(); });

function faster(by) {
  const speed = $("speed");
  speed.selectedIndex = Math.min(Math.max(speed.selectedIndex + by, 0), speed.options.length - 1);
  clock.told();
}
addEventListener("keydown", (event) => {
  if (event.target.matches("select, input:not([type=range])") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === " " && event.target.matches("button, summary")) return;
  const step = clock.step(event.shiftKey), { camera } = stage;
  const actions = {
    " ": () => clock.play(!clock.playing), ArrowRight: () => seek(clock.time + step), ArrowLeft: () => seek(clock.time - step),
    Home: () => seek(clock.first), End: () => seek(clock.last), ",": () => faster(-1), ".": () => faster(1),
    r: camera.reset, t: otherTheme, "+": () => camera.zoom(0.85), "-": () => camera.zoom(1.18),
  };
  const act = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!act) return;
  event.preventDefault();
  act();
  touch();
});

// `page.html#t=0.5&theme=dark&plot=tip` opens at a part of the span, in a theme, with plots before all others, for links
// and pictures; `time=8` is an instant of the run, and so is a `t` that is no part of the span.
const wanted = new URLSearchParams(location.hash.slice(1));
function begin() {
  plots.lead(wanted.getAll("plot"));
  for (const name of wanted.getAll("arrows")) stage.show.arrows.add(name);
  if (wanted.get("joints") === "0") stage.show.joints = false;
  if (wanted.has("tint")) stage.show.tint = { name: wanted.get("tint"), limits: [0, 1] };
  if (wanted.has("side")) { stage.show.side = true; stage.arrange(); }
  if (runs.some((run) => run.scene)) stage.options();
  const share = Number(wanted.get("t") ?? 0), part = share >= 0 && share <= 1;
  if (wanted.has("time")) seek(Number(wanted.get("time")));
  else if (wanted.has("t")) seek(part ? clock.at(share) : share);
  else if (!clock.following && runs.some((run) => run.scene) && !matchMedia("(prefers-reduced-motion: reduce)").matches) clock.play(true);
}

theme(wanted.get("theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
const whole = JSON.parse($("run").textContent);
if (whole) {
  const text = atob($("data").textContent), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  load(whole, bytes.buffer, false);
  begin();
}
requestAnimationFrame(tick);
// For tests, and for people who want to look closer from the console.
window.polhode = {
  get time() { return clock.time; }, get drawn() { return drawn; }, get readings() { return readings; }, get runs() { return runs; },
  seek, play: clock.play, poses: stage.poses, choose: plots.choose, titles: plots.titles, show: stage.show, camera: stage.camera,
};

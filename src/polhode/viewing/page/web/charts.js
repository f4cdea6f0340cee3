const MARGIN = { left: 58, right: 10, top: 8, bottom: 30 };
const DASHES = [[], [6, 4]];

const short = (x) => {
  if (x === 0) return "0";
  const a = Math.abs(x);
  return a >= 1e5 || a < 1e-3 ? x.toExponential(2).replace(/\.?0+e/, "e") : String(+x.toPrecision(4));
};

function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text) made.textContent = text;
  if (className) made.className = className;
  return made;
}

/**
 * A chart card: one quantity of one run or several over time. `sources` are `{chart, data, label}`; `on` has `seek(t)`,
 * `hover(t or null)` and `remove()`.
 */
function makeChart(card, sources, colours, on) {
  const { title: name, log, unit, time: timeUnit } = sources[0].chart;
  const curves = sources.flatMap(({ chart, data, label }, source) => {
    const t = data.floats(chart.t);
    return chart.curves.map((c, i) => ({
      name: [c.name, sources.length > 1 ? label : ""].filter(Boolean).join(" · "),
      t, values: data.floats(c.values), colour: colours[(chart.curves.length > 1 ? i : source) % colours.length], dash: DASHES[source % 2],
    }));
  });
  const value = log ? (y) => Math.log10(y) : (y) => y;
  const good = (y) => Number.isFinite(y) && (!log || y > 0);
  const head = element("header"), keys = element("div", "", "keys"), plot = element("div", "", "plot");
  const base = element("canvas"), over = element("canvas"), close = element("button", "×", "close");
  const title = element("h3", name.includes(" · ") ? name : name.charAt(0).toUpperCase() + name.slice(1));
  if (unit) title.append(" ", element("small", unit));
  close.title = close.ariaLabel = `Remove the plot of ${name}`;
  close.onclick = on.remove;
  head.append(title, close);
  plot.append(base, over);
  card.append(head, keys, plot);
  const readings = curves.map((curve) => {
    const item = element("span"), mark = element("i"), label = element("span", curve.name), number = element("b");
    mark.style.background = curve.dash.length ? `repeating-linear-gradient(90deg, ${curve.colour} 0 4px, transparent 4px 6px)` : curve.colour;
    item.append(mark, label, number);
    keys.append(item);
    return number;
  });

  let low = Infinity, high = -Infinity, t0 = Infinity, t1 = -Infinity;
  for (const { t, values } of curves) {
    for (const y of values) if (good(y)) { low = Math.min(low, value(y)); high = Math.max(high, value(y)); }
    t0 = Math.min(t0, t[0]); t1 = Math.max(t1, t[t.length - 1]);
  }
  if (!(t1 > t0)) t1 = t0 + 1;
  const empty = low > high;
  if (empty) [low, high] = [-1, 1];
  // A constant gets an axis on which its four digits differ from their neighbours.
  const size = Math.max(Math.abs(low), Math.abs(high)), constant = high - low <= 1e-6 * size;
  const room = log ? Math.max(0.06 * (high - low), 0.3) : constant ? 0.005 * size || 1 : 0.06 * (high - low);
  low -= room; high += room;

  const box = () => ({ w: plot.clientWidth - MARGIN.left - MARGIN.right, h: plot.clientHeight - MARGIN.top - MARGIN.bottom });
  const xOf = (time, w) => MARGIN.left + (time - t0) / (t1 - t0) * w;
  const yOf = (y, h) => MARGIN.top + (high - value(y)) / (high - low) * h;
  function fresh(canvas) {
    canvas.width = plot.clientWidth * devicePixelRatio; canvas.height = plot.clientHeight * devicePixelRatio;
    const c = canvas.getContext("2d");
    c.scale(devicePixelRatio, devicePixelRatio);
    return c;
  }

  function ticks() {
    if (!log) {
      const step = niceStep(high - low, 4), out = [];
      for (let k = Math.ceil(low / step); k <= high / step; k++) out.push([k * step, short(+(k * step).toPrecision(12))]);
      return out;
    }
    const step = Math.max(1, Math.ceil((high - low) / 5)), out = [];
    for (let k = Math.ceil(low / step) * step; k <= high; k += step) out.push([10 ** k, `1e${k}`]);
    return out;
  }

  function paint() {
    const c = fresh(base), { w, h } = box();
    c.font = "11px system-ui, sans-serif"; c.lineWidth = 1; c.strokeStyle = cssColour("--line"); c.fillStyle = cssColour("--muted");
    c.textAlign = "right"; c.textBaseline = "middle";
    if (!empty) for (const [y, text] of ticks()) {
      const v = Math.round(yOf(y, h)) + 0.5;
      c.beginPath(); c.moveTo(MARGIN.left, v); c.lineTo(MARGIN.left + w, v); c.stroke();
      c.fillText(text, MARGIN.left - 7, v);
    }
    c.textBaseline = "top";
    const label = timeUnit ? `t in ${timeUnit}` : "t", end = MARGIN.left + w, taken = end - c.measureText(label).width - 8;
    c.fillText(label, end, MARGIN.top + h + 7);
    c.textAlign = "center";
    const step = niceStep(t1 - t0, Math.max(2, w / 90));
    for (let k = Math.ceil(t0 / step); k <= t1 / step + 1e-9; k++) {
      const text = short(+(k * step).toPrecision(12)), x = xOf(k * step, w);
      if (x + c.measureText(text).width / 2 < taken) c.fillText(text, x, MARGIN.top + h + 7);
    }
    if (empty) { c.fillText("exactly zero", MARGIN.left + w / 2, MARGIN.top + h / 2 - 6); return; }
    c.save();
    c.beginPath(); c.rect(MARGIN.left, 0, w, plot.clientHeight); c.clip();
    c.lineWidth = 1.5; c.lineJoin = "round";
    for (const { t, values, colour, dash } of curves) {
      c.strokeStyle = colour;
      c.setLineDash(dash);
      c.beginPath();
      let down = false;
      for (let k = 0; k < t.length; k++) {
        if (!good(values[k])) { down = false; continue; }
        const x = xOf(t[k], w), y = yOf(values[k], h);
        if (down) c.lineTo(x, y); else c.moveTo(x, y);
        down = true;
      }
      c.stroke();
    }
    c.restore();
  }

  /** The sample of a curve nearest to a time. */
  function nearest(t, time) {
    let i = 0, j = t.length - 1;
    while (j - i > 1) { const m = (i + j) >> 1; if (t[m] <= time) i = m; else j = m; }
    return Math.abs(t[j] - time) < Math.abs(t[i] - time) ? j : i;
  }

  /** Shows values at a time; returns what it shows: name → value. */
  function cursor(time) {
    const c = fresh(over), { w, h } = box(), x = xOf(Math.min(Math.max(time, t0), t1), w), shown = {};
    c.strokeStyle = cssColour("--muted"); c.lineWidth = 1;
    c.beginPath(); c.moveTo(x, MARGIN.top); c.lineTo(x, MARGIN.top + h); c.stroke();
    curves.forEach(({ name: label, t, values, colour }, n) => {
      const k = nearest(t, time);
      shown[label] = values[k];
      readings[n].textContent = Number.isFinite(values[k]) ? short(values[k]) : "–";
      if (!good(values[k])) return;
      c.fillStyle = colour;
      c.beginPath(); c.arc(xOf(t[k], w), yOf(values[k], h), 3.2, 0, 7); c.fill();
    });
    return shown;
  }

  const timeAt = (event) => t0 + (event.clientX - plot.getBoundingClientRect().left - MARGIN.left) / box().w * (t1 - t0);
  plot.addEventListener("pointerdown", (event) => { plot.setPointerCapture(event.pointerId); on.seek(timeAt(event)); });
  plot.addEventListener("pointermove", (event) => { if (event.buttons) on.seek(timeAt(event)); else on.hover(timeAt(event)); });
  plot.addEventListener("pointerleave", () => on.hover(null));
  return { name, paint, cursor };
}

const MARGIN = { left: 58, right: 8, top: 8, bottom: 24 };

const short = (x) => {
  if (x === 0) return "0";
  const a = Math.abs(x);
  return a >= 1e5 || a < 1e-3 ? x.toExponential(2).replace(/\.?0+e/, "e") : String(+x.toPrecision(4));
};

/** A chart card: curves over time with a cursor that follows playback and a reading under the pointer. */
function makeChart(card, chart, floats, colours, seek) {
  const t = floats(chart.t), curves = chart.curves.map((c) => ({ name: c.name, values: floats(c.values) }));
  const value = chart.log ? (y) => Math.log10(y) : (y) => y;
  const good = (y) => Number.isFinite(y) && (!chart.log || y > 0);
  const title = document.createElement("h3"), keys = document.createElement("div"), plot = document.createElement("div");
  const base = document.createElement("canvas"), over = document.createElement("canvas");
  title.textContent = chart.title;
  keys.className = "keys"; plot.className = "plot";
  plot.append(base, over);
  card.append(title, keys, plot);
  const readings = curves.map((curve, i) => {
    const item = document.createElement("span"), mark = document.createElement("i"), text = document.createElement("span");
    mark.style.background = colours[i % colours.length];
    item.append(mark, text);
    keys.append(item);
    return text;
  });

  let low = Infinity, high = -Infinity;
  for (const { values } of curves) for (const y of values) if (good(y)) { low = Math.min(low, value(y)); high = Math.max(high, value(y)); }
  const empty = low > high;
  if (empty) [low, high] = [-1, 1];
  // A constant gets an axis on which its four digits differ from their neighbours.
  const size = Math.max(Math.abs(low), Math.abs(high)), constant = high - low <= 1e-6 * size;
  const room = chart.log ? Math.max(0.06 * (high - low), 0.3) : constant ? 0.005 * size || 1 : 0.06 * (high - low);
  low -= room; high += room;
  const t0 = t[0], t1 = t[t.length - 1] > t0 ? t[t.length - 1] : t0 + 1;

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
    if (!chart.log) {
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
    c.textAlign = "center"; c.textBaseline = "top";
    const step = niceStep(t1 - t0, Math.max(2, w / 90));
    for (let k = Math.ceil(t0 / step); k <= t1 / step + 1e-9; k++) c.fillText(short(+(k * step).toPrecision(12)), xOf(k * step, w), MARGIN.top + h + 7);
    if (empty) { c.fillText("exactly zero", MARGIN.left + w / 2, MARGIN.top + h / 2 - 6); return; }
    c.save();
    c.beginPath(); c.rect(MARGIN.left, 0, w, plot.clientHeight); c.clip();
    c.lineWidth = 1.5; c.lineJoin = "round";
    curves.forEach(({ values }, i) => {
      c.strokeStyle = colours[i % colours.length];
      c.beginPath();
      let down = false;
      for (let k = 0; k < t.length; k++) {
        if (!good(values[k])) { down = false; continue; }
        const x = xOf(t[k], w), y = yOf(values[k], h);
        if (down) c.lineTo(x, y); else c.moveTo(x, y);
        down = true;
      }
      c.stroke();
    });
    c.restore();
  }

  function cursor(time) {
    const c = fresh(over), { w, h } = box();
    let i = 0, j = t.length - 1;
    while (j - i > 1) { const m = (i + j) >> 1; if (t[m] <= time) i = m; else j = m; }
    const k = Math.abs(t[j] - time) < Math.abs(t[i] - time) ? j : i, x = xOf(Math.min(Math.max(time, t0), t1), w);
    c.strokeStyle = cssColour("--muted"); c.lineWidth = 1;
    c.beginPath(); c.moveTo(x, MARGIN.top); c.lineTo(x, MARGIN.top + h); c.stroke();
    curves.forEach(({ name, values }, n) => {
      readings[n].textContent = `${name} ${Number.isFinite(values[k]) ? short(values[k]) : "–"}`.trim();
      if (!good(values[k])) return;
      c.fillStyle = colours[n % colours.length];
      c.beginPath(); c.arc(xOf(t[k], w), yOf(values[k], h), 3.2, 0, 7); c.fill();
    });
  }

  const timeAt = (event) => t0 + (event.clientX - plot.getBoundingClientRect().left - MARGIN.left) / box().w * (t1 - t0);
  plot.addEventListener("pointerdown", (event) => { plot.setPointerCapture(event.pointerId); seek(timeAt(event)); });
  plot.addEventListener("pointermove", (event) => { if (event.buttons) seek(timeAt(event)); else cursor(timeAt(event)); });
  plot.addEventListener("pointerleave", () => seek(null));
  return { paint, cursor };
}

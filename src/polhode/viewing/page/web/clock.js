/** Time that plays, from `first` to `last`; `live` runs grow at the end, which the clock follows while it is there. */
function makeClock() {
  const clock = { first: 0, last: 1, time: 0, playing: false, pace: 1, unit: "", following: false };
  const span = () => clock.last - clock.first || 1;

  clock.load = (first, last, unit, live) => {
    const fresh = clock.loaded !== true, atEnd = clock.time >= clock.last;
    Object.assign(clock, { first, last, unit, loaded: true });
    // A motion of 3 to 30 time units plays in real time, others in 12 seconds.
    clock.pace = span() >= 3 && span() <= 30 ? 1 : span() / 12;
    clock.told();
    clock.following = live && !clock.playing && (fresh || atEnd);
    clock.time = fresh ? first : clock.time;
    if (clock.following) clock.time = last;
    clock.time = Math.min(Math.max(clock.time, first), last);
  };
  clock.told = () => {
    const pace = +(clock.pace * Number($("speed").value)).toPrecision(3);
    $("pace").textContent = `${short(pace)} ${clock.unit || (pace === 1 ? "unit of time" : "units of time")} a second`;
  };
  clock.seek = (time) => { clock.time = Math.min(Math.max(time, clock.first), clock.last); };
  clock.play = (on) => {
    clock.playing = on;
    if (on && clock.time >= clock.last) clock.time = clock.first;
    $("play").textContent = on ? "❚❚" : "▶";
  };
  /** Goes on by some seconds of a watch; true if the time has changed. */
  clock.advance = (seconds) => {
    if (!clock.playing) return false;
    // The first picture of a page may be older than its script.
    clock.time += Math.max(0, Math.min(seconds, 0.1)) * clock.pace * Number($("speed").value);
    if (clock.time >= clock.last) { clock.time = clock.last; clock.play(false); }
    return true;
  };
  clock.show = () => {
    $("slider").value = (clock.time - clock.first) / span();
    $("clock").textContent = `t = ${short(+clock.time.toPrecision(5))}${clock.unit ? ` ${clock.unit}` : ""}`;
  };
  clock.at = (part) => clock.first + span() * part;
  clock.step = (large) => span() / (large ? 20 : 200);
  return clock;
}

/** The frame of a time among increasing times, a fraction meaning a place between two. */
function frameOfTime(times, time) {
  let i = 0, j = times.length - 1;
  if (j === 0) return 0;
  while (j - i > 1) { const m = (i + j) >> 1; if (times[m] <= time) i = m; else j = m; }
  return i + Math.min(Math.max((time - times[i]) / (times[j] - times[i] || 1), 0), 1);
}

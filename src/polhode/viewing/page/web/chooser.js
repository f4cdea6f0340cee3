const MOST_LISTED = 200;

/** Plots that a reader chooses among all quantities of the runs; those with the same title share a chart. */
function makePlots(on) {
  let quantities = new Map(), charts = [], colours = [], chosen = null, missing = [];
  const list = $("quantities"), filter = $("filter");

  /** Takes the quantities of some runs; what was chosen before stays chosen. */
  function load(runs, palette) {
    quantities = new Map();
    colours = palette;
    missing = [...new Set(runs.flatMap((run) => run.left_out))];
    for (const run of runs) for (const chart of run.charts) {
      if (!quantities.has(chart.title)) quantities.set(chart.title, []);
      quantities.get(chart.title).push({ chart, data: run.data, label: run.label });
    }
    chosen ??= new Set([...quantities].filter(([, sources]) => sources[0].chart.first).map(([title]) => title));
    rebuild();
  }

  function rebuild() {
    $("charts").replaceChildren();
    charts = [...chosen].filter((title) => quantities.has(title)).map((title) => {
      const card = element("section", "", "panel chart");
      card.ariaLabel = title;
      $("charts").append(card);
      return makeChart(card, quantities.get(title), colours, { ...on, remove: () => choose(title, false) });
    });
    listed();
    paint();
  }

  function choose(title, wanted) {
    if (wanted) chosen.add(title); else chosen.delete(title);
    rebuild();
    on.changed();
  }

  /** Shows plots before those that are shown already. */
  function lead(titles) {
    if (!titles.length) return;
    chosen = new Set([...titles, ...chosen]);
    rebuild();
    on.changed();
  }

  function listed() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean), groups = new Map();
    const fits = [...quantities].filter(([title]) => words.every((word) => title.toLowerCase().includes(word)));
    for (const [title, sources] of fits.slice(0, MOST_LISTED)) {
      const { group } = sources[0].chart;
      if (!groups.has(group)) groups.set(group, []);
      groups.get(group).push(title);
    }
    list.replaceChildren(...[...groups].map(([group, titles]) => {
      const part = element("fieldset");
      part.append(element("legend", group), ...titles.map((title) => {
        const label = element("label"), box = element("input");
        box.type = "checkbox"; box.checked = chosen.has(title);
        box.onchange = () => choose(title, box.checked);
        label.append(box, ` ${title}`);
        return label;
      }));
      return part;
    }));
    if (fits.length > MOST_LISTED) list.append(element("p", `${fits.length - MOST_LISTED} more; type a name to find them.`, "remark"));
    if (missing.length) list.append(element("p", `${missing.length} more quantities are in the store, too many for a page: “${missing[0]}” and others. polhode export to csv has them all.`, "remark"));
  }

  const paint = () => { for (const chart of charts) chart.paint(); };
  const cursor = (time) => Object.fromEntries(charts.map((chart) => [chart.name, chart.cursor(time)]));
  filter.oninput = listed;
  return { load, choose, lead, paint, cursor, titles: () => [...quantities.keys()] };
}

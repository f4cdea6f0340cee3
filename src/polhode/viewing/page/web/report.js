const VERDICTS = { kept: "kept", broken: "broken", undecided: "undecided", "between steps": "undecided", "not promised": "not" };
const MARKS = { kept: "✓", broken: "✕", undecided: "?", "between steps": "≈", "not promised": "·" };

/** The audit of a run in sentences with its table behind, and facts about the run. */
function reportOf(run, several) {
  const audit = element("section", "", "panel audit"), facts = element("section", "", "panel"), list = element("ul", "", "sentences");
  audit.append(element("h2", several ? `Audit · ${run.label}` : "Audit"));
  for (const { verdict, text } of run.audit.sentences) {
    const item = element("li", "", VERDICTS[verdict]), mark = element("i", MARKS[verdict]);
    mark.title = verdict;
    item.append(mark, element("span", text));
    list.append(item);
  }
  audit.append(list, ...run.audit.remarks.map((text) => element("p", text, "remark")));
  if (run.audit.rows.length) audit.append(tableOf(run.audit));
  const pairs = element("dl");
  for (const [name, text] of run.facts) pairs.append(element("dt", name), element("dd", text));
  facts.append(element("h2", several ? `Run · ${run.label}` : "Run"));
  if (several) facts.append(element("p", run.subtitle, "how"));
  facts.append(pairs);
  return [run.audit.sentences.length ? audit : null, run.facts.length ? facts : null].filter(Boolean);
}

function tableOf(audit) {
  const all = element("details"), around = element("div", "", "wide"), table = element("table"), head = element("tr");
  const verdict = audit.headings.length - 1;
  all.append(element("summary", "Numbers"));
  audit.headings.forEach((text, i) => head.append(element("th", text, i > 1 && i < verdict ? "n" : "")));
  table.append(head);
  for (const cells of audit.rows) {
    const row = element("tr");
    cells.forEach((text, i) => row.append(element("td", text, i === verdict ? VERDICTS[text] : i > 1 ? "n" : "")));
    table.append(row);
  }
  around.append(table);
  all.append(around);
  return all;
}

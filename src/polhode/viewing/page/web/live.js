const POLL_MS = 700;

/** Asks the server for the runs as they are now, again and again while one of them goes on. */
async function poll(revision) {
  let live = true;
  try {
    const answer = await fetch(`data?have=${revision}`);
    if (answer.status === 200) {
      const buffer = await answer.arrayBuffer(), length = new DataView(buffer).getUint32(0, true);
      const shown = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
      live = shown.live;
      load(shown, buffer.slice(4 + length), live);
      if (revision === "") begin();
      revision = shown.revision;
    } else if (answer.status !== 204) {
      $("badge").textContent = await answer.text();
      $("badge").className = "bad";
      if (answer.status === 403) return;
    }
  } catch (error) {
    $("badge").textContent = runs.length ? "polhode view has ended" : String(error);
    $("badge").className = "bad";
    return;
  }
  if (live) setTimeout(poll, POLL_MS, revision);
}

$("offline").hidden = true;
poll("");

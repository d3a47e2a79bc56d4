// The console works without script. With it, a form is sent once, and a page that shows what changes by itself is loaded again, but not while
// somebody uses it. The page Live is the only one that shows nothing without it.
"use strict";

document.addEventListener("submit", (event) => {
  if (event.target.dataset.sent) {
    event.preventDefault();
    return;
  }
  event.target.dataset.sent = "yes";
});

window.addEventListener("pageshow", () => {
  for (const form of document.forms) {
    delete form.dataset.sent;
  }
});

const used = () => document.hidden || document.querySelector("main").contains(document.activeElement) || document.querySelector("main details[open]");

async function refresh() {
  if (!used()) {
    try {
      const answer = await fetch(location.href, {credentials: "same-origin"});
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (answer.redirected) {
        location.reload(); // the session has ended
        return;
      }
      if (answer.ok && page.querySelector("main") && !used()) {
        document.querySelector("main").replaceWith(page.querySelector("main"));
        document.body.dataset.refresh = page.body.dataset.refresh || "";
      }
    } catch {
      // The relay is away; the next time will do.
    }
  }
  plan();
}

function plan() {
  const seconds = Number(document.body.dataset.refresh);
  if (seconds > 0) {
    setTimeout(refresh, seconds * 1000);
  }
}

plan();

const live = document.getElementById("live");
if (live) {
  const state = document.getElementById("live-state");
  const stop = document.getElementById("live-stop");
  const rows = live.querySelector("tbody");
  let source;

  const show = (event) => {
    const d = JSON.parse(event.data);
    const row = document.createElement("tr");
    const texts = [d.at.slice(11, 23), d.sink, d.type, d.group || "", d.id, d.class || d.outcome, d.attempt, d.latency_seconds.toFixed(3) + " s", d.payload || ""];
    for (const text of texts.slice(0, Number(live.dataset.columns))) {
      row.appendChild(document.createElement("td")).textContent = text;
    }
    rows.prepend(row);
    while (rows.rows.length > 200) {
      rows.lastChild.remove();
    }
  };
  const start = () => {
    source = new EventSource(live.dataset.stream);
    source.onopen = () => { state.textContent = "Deliveries appear here as they happen."; };
    source.onmessage = show;
    source.onerror = () => {
      state.textContent = source.readyState === EventSource.CLOSED ? "The stream has ended: load the page again." : "The stream is interrupted, and begins again by itself.";
    };
    stop.textContent = "Stop";
  };
  stop.addEventListener("click", () => {
    if (stop.textContent === "Stop") {
      source.close();
      state.textContent = "Stopped.";
      stop.textContent = "Go on";
    } else {
      start();
    }
  });
  start();
}

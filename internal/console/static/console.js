// The console works without script. With it, a form is sent once, and a page that shows what changes by itself is loaded again, but not while
// somebody uses it.
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

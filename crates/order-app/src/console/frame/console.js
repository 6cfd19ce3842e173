// What pages do beyond links and forms. Without this file they work all the same.
"use strict";
(() => {
  const shown = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
  const zone = new Intl.DateTimeFormat(undefined, { timeZoneName: "short" });
  const zoneOf = (at) => (zone.formatToParts(at).find((part) => part.type === "timeZoneName") || {}).value || "";

  // The reader's own time in front of the one in UTC.
  const localize = () => {
    for (const time of document.querySelectorAll("time[datetime]")) {
      const first = time.firstElementChild;
      if (first && first.classList.contains("local") && first.dataset.of === time.dateTime) continue;
      if (first && first.classList.contains("local")) first.remove();
      const at = new Date(time.dateTime);
      if (Number.isNaN(at.valueOf()) || at.getTimezoneOffset() === 0) continue;
      const local = document.createElement("span");
      local.className = "local";
      local.dataset.of = time.dateTime;
      local.textContent = `${shown.format(at)} ${zoneOf(at)}`;
      time.prepend(local);
    }
  };

  // One box for all rows, and how many are chosen.
  const count = (form) => {
    const boxes = [...form.querySelectorAll("input[name=id]")];
    const chosen = boxes.filter((box) => box.checked).length;
    for (const all of form.querySelectorAll("[data-choose-all]")) {
      all.checked = chosen > 0 && chosen === boxes.length;
      all.indeterminate = chosen > 0 && chosen < boxes.length;
    }
    for (const out of form.querySelectorAll("[data-chosen]")) out.textContent = `${chosen} chosen`;
  };

  const prepare = () => {
    localize();
    for (const all of document.querySelectorAll("[data-choose-all]")) {
      all.hidden = false;
      if (all.form) count(all.form);
    }
  };

  document.addEventListener("change", (event) => {
    const box = event.target;
    if (!(box instanceof HTMLInputElement) || !box.form) return;
    if (box.matches("[data-choose-all]")) {
      for (const one of box.form.querySelectorAll("input[name=id]")) one.checked = box.checked;
    }
    if (box.matches("[data-choose-all], input[name=id]")) count(box.form);
  });

  // A filter takes effect at once.
  document.addEventListener("change", (event) => {
    if (event.target instanceof HTMLSelectElement && event.target.matches("[data-submits]")) {
      event.target.form.requestSubmit();
    }
  });

  // A page that can't be renewed says so.
  const stale = (is) => document.body.classList.toggle("stale", is);
  document.addEventListener("htmx:error", () => stale(true));
  document.addEventListener("htmx:response:error", (event) => {
    const status = event.detail && event.detail.ctx && event.detail.ctx.response.status;
    if (status >= 500) stale(true);
  });
  document.addEventListener("htmx:after:swap", () => stale(false));

  new MutationObserver(prepare).observe(document.documentElement, { childList: true, subtree: true });
  prepare();
})();

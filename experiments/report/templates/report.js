"use strict";
(() => {
  const root = document.documentElement;
  const view = document.getElementById("view");
  const tip = document.getElementById("tip");
  const pick = (name) => document.getElementById(`pick-${name}`);
  const chips = [...document.querySelectorAll(".chip")];
  const hidden = new Set();
  let hot = null;
  const filter = document.getElementById("filter");
  if (filter && matchMedia("(max-width: 700px)").matches) filter.open = false;

  // A section or block that is folded opens when a link leads into it.
  const unfold = () => {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    const folds = [target?.querySelector?.(":scope > details"), target?.closest?.("details")];
    for (const fold of folds) if (fold) fold.open = true;
    if (target) target.scrollIntoView();
  };
  addEventListener("hashchange", unfold);
  unfold();

  // The whole state of the view is one small style sheet: no element is visited.
  const tell = (redraw) => document.dispatchEvent(new CustomEvent("view", { detail: { hidden, redraw } }));
  const show = () => {
    const rules = [...hidden].map((n) => `main .s${n}{display:none}`);
    if (hot !== null) rules.push(`svg .s:not(.s${hot}),.maps figure:not(.s${hot}){opacity:.13}td.s${hot}{background:var(--tint)}`);
    for (const [name, letter] of [["topology", "t"], ["collective", "k"]]) {
      const chosen = pick(name)?.value ?? "";
      if (chosen === "") continue;
      for (const option of pick(name).options)
        if (option.value !== "" && option.value !== chosen) rules.push(`main .${letter}${option.value}{display:none}`);
    }
    view.textContent = rules.join("");
  };
  const heat = (n) => {
    if (n === hot) return;
    hot = n;
    show();
    document.dispatchEvent(new CustomEvent("point", { detail: n }));
  };

  for (const name of ["topology", "collective"]) pick(name)?.addEventListener("change", show);
  for (const name of ["axis", "measure"]) pick(name)?.addEventListener("change", (event) => { root.dataset[name] = event.target.value; tell(true); });
  pick("theme")?.addEventListener("change", (event) => {
    if (event.target.value) root.dataset.theme = event.target.value; else delete root.dataset.theme;
    tell(true);
  });
  for (const chip of chips) {
    const n = chip.dataset.series;
    chip.addEventListener("click", () => {
      if (!hidden.delete(n)) hidden.add(n);
      chip.setAttribute("aria-pressed", String(!hidden.has(n)));
      hot = null;
      show();
      tell(true);
    });
    for (const on of ["mouseenter", "focus"]) chip.addEventListener(on, () => heat(hidden.has(n) ? null : n));
    for (const off of ["mouseleave", "blur"]) chip.addEventListener(off, () => heat(null));
  }

  document.addEventListener("point", ({ detail }) => { if (detail !== hot) { hot = detail; show(); } });
  document.addEventListener("mousemove", (event) => {
    const target = event.target;
    const text = target.closest?.("[data-tip]")?.dataset.tip;
    const series = target.closest?.("svg .s")?.getAttribute("class").match(/\bs(\d+)\b/);
    if (!target.closest?.(".chip, .view")) heat(series ? series[1] : null);
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    const { width, height } = tip.getBoundingClientRect();
    const left = event.clientX + 14 + width > innerWidth ? event.clientX - width - 10 : event.clientX + 14;
    const top = event.clientY + 16 + height > innerHeight ? event.clientY - height - 10 : event.clientY + 16;
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${Math.max(4, top)}px`;
  });
  document.addEventListener("mouseleave", () => { tip.hidden = true; heat(null); });
  addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
})();

"use strict";
(() => {
  const page = JSON.parse(document.getElementById("charts").textContent);
  const root = document.documentElement;
  const light = ["#1d2329", "#5b6570", "#e3e7ea", "#ffffff"];
  const views = new Map();
  const hidden = new Set();
  let hot = null;

  // Columns become rows; a column of texts is its levels and a number a row.
  const unpacked = (columns) => {
    const names = Object.keys(columns);
    const count = names.length ? (columns[names[0]].codes ?? columns[names[0]]).length : 0;
    return Array.from({ length: count }, (_, i) => Object.fromEntries(names.map((name) => {
      const column = columns[name];
      return [name, column.levels ? column.levels[column.codes[i]] ?? null : column[i]];
    })));
  };
  const every = unpacked(page.rows);
  const rowsOf = (element) => {
    if (element.dataset.rows) return unpacked(JSON.parse(element.dataset.rows));
    const wanted = Object.entries(JSON.parse(element.dataset.where));
    return every.filter((row) => wanted.every(([name, value]) => row[name] === value));
  };
  const shown = (element) => rowsOf(element).filter((row) => !hidden.has(String(row.series)));

  // The theme: the configuration of light figures, with the colours of the page.
  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const count = (letter) => { let n = 0; while (colour(`--${letter}${n}`)) n += 1; return n; };
  const series = count("c");
  const themed = () => {
    const now = ["--ink", "--muted", "--rule", "--page"].map(colour);
    const text = light.reduce((all, old, i) => all.replaceAll(old, now[i]), JSON.stringify(page.theme));
    const config = JSON.parse(text);
    config.background = null;
    config.font = "system-ui, sans-serif";
    config.range.category = Array.from({ length: series }, (_, i) => colour(`--c${i}`));
    config.range.heatmap = Array.from({ length: 11 }, (_, level) => colour(`--u${level}`));
    config.range.ordinal = [5, 4, 3, 2, 1].map((shade) => colour(`--u${shade}`));
    return config;
  };

  // A chart against size shows what is chosen above.
  const measure = document.getElementById("pick-measure");
  const labelOf = ({ dataset }) => dataset.chart.endsWith("algbw")
    ? dataset.label.replace("algbw", measure.selectedOptions[0].textContent) : dataset.label;
  const specOf = (element, rows, config, width) => {
    const name = element.dataset.chart.replace("algbw", root.dataset.measure ?? "algbw");
    const log = root.dataset.axis !== "linear" && page.specs[`${name} log`];
    const text = JSON.stringify(log || page.specs[name]);
    const spec = JSON.parse(text.replaceAll('"#5b6570"', JSON.stringify(config.rule.color)));
    const present = new Set(rows.map((row) => row.method));
    spec.data = { name: "rows" };
    spec.config = config;
    for (const param of spec.params ?? []) if (param.name === "present") param.value = param.value.filter((name) => present.has(name));
    if (!spec.facet) {
      spec.width = width;
      spec.autosize = { type: "fit-x", contains: "padding" };
    } else {
      const panels = new Set(rows.map((row) => row.panel)).size;
      const most = Math.max(2, Math.min(4, Math.floor(width / 110)));
      spec.columns = panels < most ? panels : Array.from({ length: most - 1 }, (_, i) => most - i).find((n) => panels % n === 0) ?? most;
      spec.spec.width = (width - 62 - spec.spacing * (spec.columns - 1)) / spec.columns;
      if (width < 600) spec.spec.height = 56;
    }
    return spec;
  };
  // Charts that differ in their rows only are compiled once.
  const compiled = new Map();
  const made = (element, rows, config, width, options) => {
    const spec = specOf(element, rows, config, width);
    const key = JSON.stringify(spec);
    if (!compiled.has(key)) {
      const { spec: lowered } = vega.compile(spec, { logger: vega.logger(vega.Error) });
      compiled.set(key, vega.parse(lowered, {}, { ast: true }));
    }
    const view = new vega.View(compiled.get(key), { expr: vega.expressionInterpreter, logLevel: vega.Error, ...options });
    return view.description(labelOf(element)).data("rows", rows.map((row) => ({ ...row })));
  };

  const told = (value) => Object.entries(value).filter(([, text]) => text !== "null" && text !== null && text !== "")
    .map(([name, text]) => `${name}: ${text}`).join("\n");
  const draw = async (element, width = element.clientWidth) => {
    views.get(element)?.finalize();
    element.replaceChildren();
    const config = themed();
    config.legend.columns = width < 600 ? 2 : 5;
    config.legend.labelLimit = width / config.legend.columns - 45;
    const view = made(element, shown(element), config, width, { renderer: "svg", container: element, hover: true });
    views.set(element, view);
    view.tooltip((_, event, item, value) => { element.dataset.tip = value ? told(value) : ""; });
    view.addEventListener("mousemove", (_, item) => {
      const number = item?.datum?.series ?? item?.datum?.datum?.series;
      point(number === undefined ? null : String(number));
    });
    await view.runAsync();
    element.style.minHeight = 0;
    const excess = element.scrollWidth - element.clientWidth;  // of panels: what is around them is known only now
    if (excess > 0 && width === element.clientWidth && views.get(element) === view) await draw(element, width - excess);
  };
  // What is pointed at is told by one event, from the legend of the page and from the charts.
  const point = (number) => document.dispatchEvent(new CustomEvent("point", { detail: number }));
  const near = new Set();
  document.addEventListener("point", ({ detail }) => {
    if (detail === hot) return;
    hot = detail;
    for (const element of near) {
      const view = views.get(element);
      try { view?.signal("hot", hot === null ? null : Number(hot)).run(); } catch { /* a chart without methods */ }
    }
  });
  // Many charts are drawn a few a frame, those on the screen first, so that the page answers meanwhile.
  const waiting = new Set();
  let busy = false;
  const next = async () => {
    const until = performance.now() + 30;
    for (const element of waiting) {
      waiting.delete(element);
      await draw(element);
      if (performance.now() > until) break;
    }
    busy = waiting.size > 0;
    if (busy) requestAnimationFrame(next);
  };
  const want = (elements) => {
    const away = (element) => Math.abs(element.getBoundingClientRect().top - innerHeight / 3);
    for (const element of elements.sort((a, b) => away(a) - away(b))) waiting.add(element);
    if (busy || !waiting.size) return;
    busy = true;
    requestAnimationFrame(next);
  };
  const stale = new Set();
  const redraw = () => {
    for (const element of views.keys()) stale.add(element);
    want([...near].filter((element) => stale.delete(element)));
  };
  document.addEventListener("view", ({ detail }) => {
    hidden.clear();
    for (const number of detail.hidden) hidden.add(number);
    if (detail.redraw) redraw();
  });

  // Charts are drawn when they come near the screen, and again when the page is another.
  const watcher = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) if (isIntersecting) near.add(target); else near.delete(target);
    want(entries.map(({ target }) => target).filter((one) => near.has(one) && (!views.has(one) || stale.delete(one))));
  }, { rootMargin: "400px" });
  const elements = [...document.querySelectorAll(".view")];
  let wide = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== wide) { wide = innerWidth; redraw(); } });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  addEventListener("beforeprint", () => { for (const element of elements) if (element.clientWidth) draw(element); });

  // The menu of a chart: as it is on paper, and its rows.
  const save = (name, url) => Object.assign(document.createElement("a"), { download: name, href: url }).click();
  const quoted = (value) => value === null ? "" : /[",\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : String(value);
  const actions = {
    SVG: async (view, name) => save(`${name}.svg`, `data:image/svg+xml,${encodeURIComponent(await view.toSVG())}`),
    PNG: async (view, name) => save(`${name}.png`, await view.toImageURL("png", 2)),
    CSV: (_, name, rows) => {
      const names = Object.keys(rows[0] ?? {});
      const lines = [names, ...rows.map((row) => names.map((column) => quoted(row[column])))];
      save(`${name}.csv`, `data:text/csv,${encodeURIComponent(lines.map((line) => line.join(",")).join("\n"))}`);
    },
  };
  for (const element of elements) {
    const menu = document.createElement("details");
    menu.className = "menu";
    const head = document.createElement("summary");
    head.textContent = "save";
    head.setAttribute("aria-label", `Save: ${element.dataset.label}`);
    menu.append(head, ...Object.keys(actions).map((kind) => {
      const button = Object.assign(document.createElement("button"), { type: "button", textContent: kind });
      button.addEventListener("click", () => {
        const rows = shown(element);
        const view = made(element, rows, page.theme, element.closest("header") ? 1000 : 420, { renderer: "none" });
        actions[kind](view, labelOf(element).replace(/[^\w.-]+/g, "_"), rows);
      });
      return button;
    }));
    element.after(menu);
    watcher.observe(element);
  }
})();

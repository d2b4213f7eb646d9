"use strict";
// The player. Its data are the simulator's: bars of [message, link, begin, end, bytes, step, owners], by begin.
(() => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("data").textContent);
  const [MESSAGE, LINK, BEGIN, END, BYTES, STEP, OWNERS] = [0, 1, 2, 3, 4, 5, 6];
  const bars = data.bars, total = data.time || 1;
  const moments = [...new Set(bars.flatMap((bar) => [bar[BEGIN], bar[END]]).concat(0, data.time))].sort((a, b) => a - b);
  const SECONDS = Math.min(30, Math.max(6, moments.length / 3)); // that playing all of it takes
  const still = matchMedia("(prefers-reduced-motion: reduce)");

  const SEVERAL = "rgb(128,128,128)", MOST_STRIPES = 6;
  const colours = new Map(data.colours.map(([owner, rgb]) => [owner, `rgb(${rgb})`]));
  const inks = new Map(data.colours.map(([owner, rgb]) => {
    const [r, g, b] = rgb.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return [owner, 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? "#000" : "#fff"];
  }));
  let wanted = null; // the rank whose data alone are shown
  const has = (bar) => wanted === null || bar[OWNERS].includes(wanted);
  const colour = (bar) => colours.get(wanted ?? (bar[OWNERS].length === 1 ? bar[OWNERS][0] : undefined)) ?? SEVERAL;
  function stripes(bar) {
    const many = bar[OWNERS], part = 100 / many.length;
    if (many.length === 1 || many.length > MOST_STRIPES) return colour(bar);
    return `linear-gradient(${many.map((owner, i) => `${colours.get(owner)} ${i * part}% ${(i + 1) * part}%`)})`;
  }

  function unit(value, names) {
    const [scale, name] = names.find(([least]) => value >= least) || names[names.length - 1];
    return `${+(value / scale).toPrecision(5)} ${name}`;
  }
  const seconds = (value) => unit(value, value ? [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]] : [[1e-6, "µs"]]);
  const amount = (value) => unit(value, [[1e9, "GB"], [1e6, "MB"], [1e3, "KB"], [1, "B"]]);
  const names = (bar) => bar[OWNERS].map((owner) => data.ranks[owner]).join(", ");
  const about = (bar) => `${data.links[bar[LINK]]}: ${amount(bar[BYTES])} of rank${bar[OWNERS].length > 1 ? "s" : ""} ${names(bar)}${bar[STEP] ? `, step ${bar[STEP]}` : ""}`;
  const span = (bar) => `${seconds(bar[BEGIN])} to ${seconds(bar[END])}`;

  function make(name, parent, properties = {}) {
    const element = parent.appendChild(document.createElement(name));
    return Object.assign(element, properties);
  }

  // The Gantt chart: a lane a link, a bar a message.
  const gantt = $("gantt"), pieces = [];
  function axis() {
    const track = make("div", gantt, { className: "axis" });
    make("span", track);
    const ticks = make("div", track, { className: "track" });
    for (const share of [0, 0.25, 0.5, 0.75, 1]) make("b", ticks, { textContent: seconds(+(share * total).toPrecision(3)) }).style.left = `${100 * share}%`;
  }
  function lanes() {
    const used = [...new Set(bars.map((bar) => bar[LINK]))].sort((a, b) => a - b), tracks = new Map();
    for (const link of used) {
      const lane = make("div", gantt, { className: "lane" });
      make("span", lane, { textContent: data.links[link], title: data.links[link] });
      tracks.set(link, make("div", lane, { className: "track" }));
    }
    const pixels = gantt.querySelector(".track").clientWidth;
    bars.forEach((bar, number) => {
      const wide = (bar[END] - bar[BEGIN]) / total, text = names(bar);
      const piece = make("i", tracks.get(bar[LINK]), {
        className: "bar",
        title: `${about(bar)}, ${span(bar)}`,
        textContent: bar[OWNERS].length === 1 && pixels * wide > 8 * text.length + 4 ? text : "",
      });
      piece.style.cssText = `left:${(100 * bar[BEGIN]) / total}%;width:${100 * wide}%;background:${stripes(bar)};color:${inks.get(bar[OWNERS][0])}`;
      piece.dataset.bar = number;
      pieces.push(piece);
    });
  }
  axis();
  lanes();
  const rest = make("div", gantt, { className: "rest" }), cursor = make("div", rest, { className: "cursor" });
  rest.style.height = `${gantt.scrollHeight}px`;
  gantt.addEventListener("click", (event) => {
    const number = event.target.dataset.bar;
    if (number !== undefined) go(bars[number][BEGIN]);
  });

  // The network: links that are held now, and a parcel on each.
  const svg = document.querySelector(".player .net"), SVG = "http://www.w3.org/2000/svg";
  const ways = new Map([...svg.querySelectorAll("[data-link]")].map((path) => [
    +path.dataset.link, { path, points: path.getAttribute("d").match(/-?[\d.]+/g).slice(0, 6).map(Number) },
  ]));
  const layer = svg.insertBefore(document.createElementNS(SVG, "g"), svg.querySelector(".nodes"));
  const size = +svg.querySelector(".node rect").getAttribute("width") / 2;
  function parcel(bar) {
    const circle = layer.appendChild(document.createElementNS(SVG, "circle"));
    circle.setAttribute("class", "parcel");
    circle.setAttribute("r", Math.max(3, 0.45 * size).toFixed(1));
    circle.setAttribute("fill", colour(bar));
    return circle;
  }
  function move(circle, bar) {
    const s = (now - bar[BEGIN]) / (bar[END] - bar[BEGIN]), p = ways.get(bar[LINK]).points;
    for (const [name, i] of [["cx", 0], ["cy", 1]])
      circle.setAttribute(name, ((1 - s) ** 2 * p[i] + 2 * s * (1 - s) * p[i + 2] + s * s * p[i + 4]).toFixed(1));
  }

  let now = 0, playing = 0;
  const shown = new Map(); // bar's number to its parcel
  const slider = $("time"), list = $("now");
  function clear() {
    for (const [i, circle] of shown) {
      circle.remove();
      ways.get(bars[i][LINK]).path.classList.remove("busy");
    }
    shown.clear();
    tell([]);
  }
  function fill(moving) {
    clear();
    for (const i of moving) {
      const { path } = ways.get(bars[i][LINK]);
      path.classList.add("busy");
      path.style.setProperty("--c", colour(bars[i]));
      shown.set(i, parcel(bars[i]));
    }
    tell(moving);
  }
  function show() {
    const moving = [];
    for (let i = 0; i < bars.length && bars[i][BEGIN] <= now; i++)
      if (now < bars[i][END] && has(bars[i])) moving.push(i);
    if (moving.length !== shown.size || !moving.every((i) => shown.has(i))) fill(moving);
    for (const [i, circle] of shown) move(circle, bars[i]);
    slider.value = (1000 * now) / total;
    slider.setAttribute("aria-valuetext", `${seconds(now)} of ${seconds(data.time)}`);
    $("clock").textContent = `${seconds(now)} of ${seconds(data.time)}`;
    cursor.style.left = `${(100 * now) / total}%`;
    document.body.dataset.time = now;
  }
  function tell(moving) {
    $("count").textContent = moving.length ? `Moving now: ${moving.length}` : now >= data.time ? "All is done" : "Nothing moves";
    list.replaceChildren();
    for (const i of moving) {
      const line = make("li", list);
      line.dataset.message = bars[i][MESSAGE];
      line.dataset.link = bars[i][LINK];
      make("i", line).style.background = stripes(bars[i]);
      make("span", line, { textContent: about(bars[i]) });
    }
  }

  function go(time) {
    now = Math.min(Math.max(time, 0), data.time);
    show();
  }
  function step(by) {
    pause();
    const at = by > 0 ? moments.find((moment) => moment > now) : moments.findLast((moment) => moment < now);
    go(at === undefined ? now : at);
  }
  function pause() {
    cancelAnimationFrame(playing);
    playing = 0;
    $("play").textContent = "Play";
  }
  function play() {
    if (now >= data.time) go(0);
    $("play").textContent = "Pause";
    let before = performance.now(), due = now;
    playing = requestAnimationFrame(function frame(moment) {
      due += (Math.max(moment - before, 0) / 1000 / SECONDS) * total;
      before = moment;
      // Who wants no motion sees each set of messages stand still.
      go(still.matches ? moments.findLast((one) => one <= due) : due);
      if (due < data.time) playing = requestAnimationFrame(frame);
      else {
        go(data.time);
        pause();
      }
    });
  }
  const toggle = () => (playing ? pause() : play());
  const jump = (time) => {
    pause();
    go(time);
  };

  const keys = { ArrowRight: () => step(1), ArrowLeft: () => step(-1), Home: () => jump(0), End: () => jump(data.time), " ": toggle };
  document.addEventListener("keydown", (event) => {
    const act = keys[event.key], on = event.target;
    if (!act || event.ctrlKey || event.metaKey || event.altKey || on.closest("select, summary, .scroll, .net")) return;
    if (event.key === " " && on.closest("button")) return; // which it presses
    event.preventDefault();
    act();
  });
  $("play").addEventListener("click", toggle);
  $("first").addEventListener("click", () => jump(0));
  $("last").addEventListener("click", () => jump(data.time));
  $("back").addEventListener("click", () => step(-1));
  $("next").addEventListener("click", () => step(1));
  slider.addEventListener("input", () => jump((slider.value / 1000) * total));
  for (const owner of colours.keys()) make("option", $("owner"), { value: owner, textContent: `rank ${data.ranks[owner]}` });
  $("owner").addEventListener("change", () => {
    wanted = $("owner").value === "" ? null : +$("owner").value;
    pieces.forEach((piece, i) => piece.classList.toggle("off", !has(bars[i])));
    clear();
    show();
  });

  $("messages").addEventListener("toggle", () => {
    const box = $("messages").querySelector(".scroll");
    if (box.firstChild) return;
    const table = make("table", box), head = make("tr", make("thead", table)), body = make("tbody", table);
    for (const name of ["link", "data of", "bytes", "from", "to"]) make("th", head, { textContent: name, scope: "col" });
    for (const bar of bars) {
      const row = make("tr", body);
      const cells = [data.links[bar[LINK]], names(bar), amount(bar[BYTES]), seconds(bar[BEGIN]), seconds(bar[END])];
      for (const text of cells) make("td", row, { textContent: text });
    }
  });
  clear();
  show();
})();

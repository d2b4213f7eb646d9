"use strict";
// Networks by keyboard: in a picture that has the focus, arrow keys go from link to link, the busiest or those that
// a bound feels first, then to the nodes; below it stands what pointing at each says.
for (const net of document.querySelectorAll("svg.net, svg.network")) {
  const weight = ({ classList }) => (classList.contains("felt") ? 1 : +(/\bq(\d)/.exec(classList)?.[1] ?? 0));
  const links = [...net.querySelectorAll(".link")].sort((a, b) => weight(b) - weight(a));
  const parts = [...links, ...net.querySelectorAll(".node")];
  const text = (part) => part.dataset.tip ?? (part.querySelector("title") ?? part.parentNode.querySelector("title")).textContent;
  const told = Object.assign(document.createElement("p"), { className: "told" });
  told.setAttribute("role", "status");
  net.after(told);
  net.setAttribute("role", "application");
  net.setAttribute("tabindex", "0");
  net.setAttribute("aria-roledescription", "network; arrow keys go through its links and nodes");
  let at = -1;
  const go = (place) => {
    parts[at]?.classList.remove("chosen");
    at = Math.min(place, parts.length - 1);
    parts[at]?.classList.add("chosen");
    told.textContent = at < 0 ? "" : text(parts[at]);
  };
  const keys = { ArrowRight: () => at + 1, ArrowDown: () => at + 1, ArrowLeft: () => Math.max(at - 1, 0), ArrowUp: () => Math.max(at - 1, 0), Home: () => 0, End: () => parts.length - 1, Escape: () => -1 };
  net.addEventListener("keydown", (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    go(keys[event.key]());
  });
  net.addEventListener("focus", () => { if (net.matches(":focus-visible")) told.textContent = "Arrow keys go through links and nodes."; });
  net.addEventListener("blur", () => go(-1));
}

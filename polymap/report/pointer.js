"use strict";
// Pictures with marks: the one under the pointer says what it is; a drag chooses all that pass through a box, a click
// lets them go. A mark is [words, corners]: a point, or a line through several.
for (const figure of document.querySelectorAll("figure[data-marks]:not([data-live])")) {
  figure.dataset.live = "";
  const svg = figure.querySelector("svg");
  const marks = JSON.parse(figure.querySelector("script").textContent);
  const layer = svg.appendChild(document.createElementNS(svg.namespaceURI, "g"));
  layer.style.pointerEvents = "none";
  const told = figure.appendChild(document.createElement("div"));
  told.setAttribute("role", "status");
  told.style.minHeight = "1.4em";
  const help = told.textContent = "Hover: what a mark is. Drag: choose those in a box. Click: choose none.";
  let start = null, box = null;
  const draw = (name, values) => {
    const shape = layer.appendChild(document.createElementNS(svg.namespaceURI, name));
    for (const [key, value] of Object.entries(values)) shape.setAttribute(key, value);
  };
  const trace = (corners, stroke, thin) => draw("path", {
    d: "M" + corners.join("L") + (corners.length > 1 ? "" : "h0"), fill: "none", stroke,
    "stroke-linecap": "round", "stroke-width": corners.length > 1 ? thin : 4 * thin,
  });
  const far = (corners, at) => Math.min(...corners.map(([x, y], n) => {
    const [u, v] = corners[Math.max(0, n - 1)], [a, b] = [x - u, y - v];
    const part = Math.max(0, Math.min(1, ((at.x - u) * a + (at.y - v) * b) / (a * a + b * b || 1)));
    return Math.hypot(u + part * a - at.x, v + part * b - at.y);
  }));
  const inside = corners => corners.some(([x, y]) =>
    x >= box.x && x <= box.x + box.width && y >= box.y && y <= box.y + box.height);
  const show = at => {
    layer.replaceChildren();
    const chosen = box ? marks.filter(mark => inside(mark[1])) : marks;
    if (box) {
      draw("rect", { width: "100%", height: "100%", fill: "#ffffff", "fill-opacity": 0.7 });
      for (const mark of chosen) trace(mark[1], "#2f6fde", 1);
      draw("rect", { ...box, fill: "none", stroke: "#1f2937", "stroke-dasharray": "4 3" });
    }
    let best = null, least = 12;
    for (const mark of at ? chosen : []) {
      const distance = far(mark[1], at);
      if (distance <= least) { least = distance; best = mark; }
    }
    if (best) trace(best[1], "#e4572e", 2);
    const count = box ? `${chosen.length.toLocaleString("en")} of ${marks.length.toLocaleString("en")} chosen` : "";
    told.textContent = [count, best ? best[0] : ""].filter(Boolean).join("; ") || help;
  };
  const place = event => new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  svg.addEventListener("pointerdown", event => {
    start = place(event);
    box = null;
    event.preventDefault();
    show(start);
  });
  svg.addEventListener("pointermove", event => {
    const at = place(event);
    if (start && Math.hypot(at.x - start.x, at.y - start.y) > 4) {
      const [x, y] = [Math.min(start.x, at.x), Math.min(start.y, at.y)];
      box = { x, y, width: Math.abs(at.x - start.x), height: Math.abs(at.y - start.y) };
    }
    show(at);
  });
  for (const end of ["pointerup", "pointercancel"]) window.addEventListener(end, () => { start = null; });
  svg.addEventListener("pointerleave", () => show(null));
}

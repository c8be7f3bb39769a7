/* start.js - adds the views to the page. */

const viewClasses = { head: HeadView, model: ModelView, neuron: NeuronView, heatmap: HeatView };

document.body.dataset.mode = page.views[0].mode;
document.body.classList.toggle("beside", page.columns === 2);
for (const spec of page.views) {
  const view = new viewClasses[spec.kind](spec);
  document.querySelector("main").append(view.root);
  view.resized();
}

requestAnimationFrame(() => requestAnimationFrame(() => performance.mark("first-drawing")));

/* Screen readers tell views of the same kind apart by their numbers. */
const names = views.map(view => view.root.getAttribute("aria-label"));
views.forEach(({ root }, n) => {
  if (names.filter(name => name === names[n]).length > 1)
    root.setAttribute("aria-label", `${names[n]} ${names.slice(0, n + 1).filter(name => name === names[n]).length}`);
});

/* The page has the paper's width while it is printed. */
const PAPER = 700; /* pixels */
const print = on => {
  document.body.style.width = on ? `${PAPER}px` : "";
  document.body.classList.toggle("paper", on);
  dispatchEvent(new Event("resize"));
  for (const view of views)
    view.printed();
};
addEventListener("beforeprint", () => print(true));
addEventListener("afterprint", () => print(false));

/* start.js - adds the views to the page. */

const kinds = { head: HeadView, model: ModelView, neuron: NeuronView };

document.body.dataset.mode = page.views[0].mode;
for (const spec of page.views) {
  const view = new kinds[spec.kind](spec);
  document.querySelector("main").append(view.root);
  view.draw();
}

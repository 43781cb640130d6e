// The page's side of a box of controls that has no picture: it is looked after as a Lab is.

export default {
  initialize({ model }) {
    model.send({ kind: "hello" });
  },
  render({ model, el }) {
    return tend(el, model);
  },
};

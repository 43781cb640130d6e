// A page inside another one, as in the course: the outer page gives it the height that it needs.

/**
 * Tells the outer page, if there is one, how high this page is, now and whenever that changes.
 * @returns {void}
 */
export function tellHeight() {
  if (window.parent === window) {
    return;
  }
  const tell = () => window.parent.postMessage({ moeLabHeight: document.documentElement.offsetHeight }, "*");
  new ResizeObserver(tell).observe(document.documentElement);
}

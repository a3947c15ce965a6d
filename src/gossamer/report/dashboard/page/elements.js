// Elements of the page. Texts become text nodes, never markup; there is no other way to put one in.

export const byId = (id) => document.getElementById(id);

/** An element: `class`, `text`, `click` for a listener, other attributes; then what it holds. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value == null || value === false) continue;
    if (name === "class") element.className = value;
    else if (name === "text") element.textContent = value;
    else if (name === "click") element.addEventListener("click", value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

export function makeSvg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Nothing is touched that already reads so: a selection stays, and no screen reader is woken. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function setTitle(element, text) {
  if (element.title !== text) element.title = text;
}

/** A link to a page of the web, if it is one; the page is not told where it was clicked. */
export function linkTo(url, text, title) {
  if (!/^https?:\/\//i.test(url)) return make("span", { text, title });
  return make("a", { href: url, rel: "noreferrer noopener", target: "_blank", text, title });
}

// A finger leaves no pointer behind, although the browser goes on to say that it is there.
let isFinger = false;
const noteFinger = ({ pointerType }) => (isFinger = pointerType === "touch");
addEventListener("pointermove", noteFinger, { capture: true, passive: true });
addEventListener("pointerdown", noteFinger, { capture: true, passive: true });

/** Whether a person is busy with it, by pointer or by keyboard: then nothing in it may move. */
export function isHeld(element) {
  return (!isFinger && element.matches(":hover")) || element.querySelector(":focus-visible") !== null;
}

/** To those who hear the page. Said at changes of state alone. */
export function say(text) {
  setText(byId("said"), text);
}

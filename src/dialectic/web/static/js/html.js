// The only place that turns HTML of the server into elements: sanitised documents of `GET …/html`.
import { noChange } from "../vendor/lit/lit-html.js";
import { Directive, directive, PartType } from "../vendor/lit/directive.js";

// The server sanitises; every other string that reaches `innerHTML` throws.
const policy = globalThis.trustedTypes?.createPolicy("dialectic-html", { createHTML: (text) => text })
  ?? { createHTML: (text) => text };

const NONE = {};

class Sanitised extends Directive {
  constructor(part) {
    super(part);
    if (part.type !== PartType.ELEMENT) throw new Error("sanitised() belongs into a start tag");
    this.shown = null;
    this.links = null;
    this.faint = null;
  }

  /** @param {[html: string, options?: object]} _ what `update` takes */
  render(..._) {
    return noChange;
  }

  update(part, [html, { links = null, marks = null, picked = null, faint = null, hasIds = true } = NONE]) {
    const { element } = part;
    if (html !== this.shown || links !== this.links || faint !== this.faint) {
      element.innerHTML = policy.createHTML(html);
      // A wide table scrolls by itself, so the keyboard must reach it.
      for (const table of element.querySelectorAll(".table")) table.tabIndex = 0;
      lowerHeadings(element);
      if (!hasIds) for (const block of element.querySelectorAll("[id]")) block.removeAttribute("id");
      if (links?.size) linkNames(element, links);
      if (faint?.size) fadeRuns(element, faint);
      [this.shown, this.links, this.faint, this.marks, this.picked] = [html, links, faint, null, null];
    }
    if (marks !== this.marks) {
      markBlocks(element, this.marks, marks);
      this.marks = marks;
    }
    if (picked !== this.picked) {
      if (this.picked) find(element, this.picked)?.removeAttribute("aria-current");
      if (picked) find(element, picked)?.setAttribute("aria-current", "true");
      this.picked = picked;
    }
    return noChange;
  }
}

/**
 * Fill an element with sanitised HTML: html`<article ${sanitised(answer.html)}></article>`.
 * `links` are names in the text that lead somewhere (name → address); `marks` are classes of blocks
 * (id → class names); `picked` is the block that someone looks at; `faint` are runs of three words
 * that are not worth reading twice. Each is applied again only if it is another one. Where several
 * documents are on one page, `hasIds: false` keeps their ids apart.
 */
export const sanitised = directive(Sanitised);

/** Scroll to a block and let it flash twice. */
export function flashBlock(id, { isScrolled = true } = {}) {
  const block = document.getElementById(id);
  if (!block) return;
  if (isScrolled) block.scrollIntoView({ block: "center" });
  block.classList.add("flash");
  block.addEventListener("animationend", () => block.classList.remove("flash"), { once: true });
}

/** The page has the only heading of level 1; those of a document come below it, without gaps. */
function lowerHeadings(element) {
  const above = [];
  for (const heading of element.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
    const level = Number(heading.tagName[1]);
    while (above.length && above.at(-1) >= level) above.pop();
    above.push(level);
    heading.setAttribute("aria-level", String(above.length + 1));
  }
}

function markBlocks(element, before, marks) {
  // A block keeps its other classes: it may flash when its marks arrive.
  for (const [id, names] of before ?? []) find(element, id)?.classList.remove(...names.split(" "));
  let isFirst = true;
  for (const [id, names] of marks ?? []) {
    const block = find(element, id);
    if (!block) continue;
    block.classList.add(...names.split(" "));
    block.tabIndex = isFirst ? 0 : -1;
    isFirst = false;
  }
}

const find = (element, id) => element.querySelector(`#${CSS.escape(id)}`);

/** Make names such as “Thesis B” links, except in code and in links. */
function linkNames(element, links) {
  const names = [...links.keys()].sort((a, b) => b.length - a.length).map((name) => name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const pattern = new RegExp(`(?<![\\p{L}\\p{N}])(?:${names.join("|")})(?![\\p{L}\\p{N}])`, "gu");
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT, (node) => (node.parentElement.closest("a, code, pre") ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT));
  const found = [];
  while (walker.nextNode()) {
    pattern.lastIndex = 0;
    if (pattern.test(/** @type {Text} */ (walker.currentNode).data)) found.push(/** @type {Text} */ (walker.currentNode));
  }
  for (const node of found) node.replaceWith(...split(node.data, pattern, links));
}

function split(text, pattern, links) {
  const parts = [];
  let end = 0;
  for (const match of text.matchAll(pattern)) {
    const link = Object.assign(document.createElement("a"), { className: "ref", href: links.get(match[0]), textContent: match[0] });
    parts.push(text.slice(end, match.index), link);
    end = match.index + match[0].length;
  }
  return [...parts, text.slice(end)];
}

/** Make words faint that belong to one of these runs of three words. */
function fadeRuns(element, runs) {
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  const found = [];
  while (walker.nextNode()) if (/** @type {Text} */ (walker.currentNode).data.trim()) found.push(/** @type {Text} */ (walker.currentNode));
  for (const node of found) {
    const parts = node.data.split(/([\p{L}\p{N}]+)/u);
    const words = parts.filter((_, n) => n % 2).map((word) => word.toLowerCase());
    const isFaint = words.map(() => false);
    for (let n = 0; n + 2 < words.length; n += 1) if (runs.has(`${words[n]} ${words[n + 1]} ${words[n + 2]}`)) isFaint.fill(true, n, n + 3);
    if (isFaint.some(Boolean)) node.replaceWith(...fade(parts, isFaint));
  }
}

function fade(parts, isFaint) {
  const made = [];
  parts.forEach((part, n) => {
    // What stands between two faint words is faint too.
    const is = n % 2 ? isFaint[(n - 1) / 2] : isFaint[n / 2 - 1] && isFaint[n / 2];
    const last = made.at(-1);
    if (last && last.is === is) last.text += part;
    else made.push({ is, text: part });
  });
  return made.map(({ is, text }) => (is ? Object.assign(document.createElement("span"), { className: "same", textContent: text }) : text));
}

/**
 * Divide sanitised HTML where its headings stand, for documents side by side.
 * @param {number} deepest headings of a deeper level stay inside a section
 * @returns {{id: string|null, level: number, heading: string, html: string, text: string}[]}
 */
export function splitSections(html, deepest) {
  const holder = document.createElement("template");
  holder.innerHTML = policy.createHTML(html);
  const sections = [{ id: null, level: 0, heading: "", html: "", text: "" }];
  for (const child of holder.content.children) {
    const level = /^H[1-6]$/.test(child.tagName) ? Number(child.tagName[1]) : 0;
    if (level && level <= deepest) {
      sections.push({ id: child.id || null, level, heading: child.textContent.trim(), html: "", text: "" });
    } else {
      const last = sections.at(-1);
      last.html += child.outerHTML;
      last.text += `${child.textContent}\n`;
    }
  }
  return sections.filter((section) => section.level || section.html);
}

// The files of a project as a tree, as an export has them.
import { html, nothing } from "../../../vendor/lit/lit-html.js";
import { repeat } from "../../../vendor/lit/directives/repeat.js";
import { get } from "../../api.js";
import { count, plural } from "../../format.js";
import { draw } from "../../store.js";
import { blank, chip, written } from "../parts.js";

/** Load the list of files. */
export async function loadFiles(page) {
  page.files = buildTree((await get(`/projects/${page.project.id}/files`)).items, page.project.slug);
  draw();
}

/** A tree of folders from paths; a folder knows how many files it holds. */
export function buildTree(items, slug) {
  const root = { name: slug, path: slug, folders: new Map(), files: [], size: items.length };
  for (const item of items) {
    const parts = item.path.split("/").slice(1);
    let folder = root;
    for (const part of parts.slice(0, -1)) {
      if (!folder.folders.has(part)) folder.folders.set(part, { name: part, path: `${folder.path}/${part}`, folders: new Map(), files: [], size: 0 });
      folder = folder.folders.get(part);
      folder.size += 1;
    }
    folder.files.push({ ...item, name: parts.at(-1) });
  }
  return root;
}

/** Draw the tree. */
export function files(page) {
  const url = `/api/v1/projects/${page.project.id}`;
  return html`<div class="section-head"><h2 class="sr">Files</h2><p class="soft grow">${page.files ? plural(page.files.size, "file") : "…"}</p>
      <div class="row wrap"><a class="button small" href="${url}/export?finished=true" download>Download finished documents</a><a class="button small" href="${url}/export" download>Download all</a></div></div>
    ${page.files ? html`<div class="tree">${folder(page, page.files, true)}</div>` : blank(6, 28)}`;
}

function folder(page, one, isRoot = false) {
  const isOpen = isRoot || page.folders.has(one.path);
  const inside = () => html`<ul>${repeat(one.folders.values(), (each) => each.path, (each) => html`<li>${folder(page, each)}</li>`)}
    ${repeat(one.files, (each) => each.path, (each) => html`<li><a class="file" href="/api/v1/projects/${page.project.id}/file?path=${encodeURIComponent(each.path)}" download=${each.name}>${written(each.name)}</a>${each.sha256 === null && /^[^/]+\/(Pending|Current|Complete)\//.test(each.path) ? chip("yours") : nothing}</li>`)}</ul>`;
  if (isRoot) return inside();
  const toggle = (event) => {
    if (event.target.open) page.folders.add(one.path);
    else page.folders.delete(one.path);
    draw();
  };
  return html`<details ?open=${isOpen} @toggle=${toggle}><summary>${written(one.name)} <span class="faint">${count(one.size)}</span></summary>${isOpen ? inside() : nothing}</details>`;
}

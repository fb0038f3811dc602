// Sections of several documents side by side: which belong together, and what is equal. Pure.

/**
 * @typedef {{id: string|null, level: number, heading: string, html: string, text: string}} Section
 * @typedef {{key: string, heading: string, cells: (Section|null)[], isSame: boolean}} Row
 */

/** A heading without numbers, marks and case: what makes two headings the same. */
export const keyOf = (heading) => heading.toLowerCase().replace(/^[\s\d.:)(–-]+|[^\p{L}\p{N}]+/gu, " ").trim() || heading.trim();

/** The deepest level of headings that makes rows: the first with two headings or more in most documents. */
export function chooseDepth(tocs) {
  for (const level of [1, 2, 3]) {
    const enough = tocs.filter((toc) => toc.filter((entry) => entry.level <= level).length > 1).length;
    if (enough * 2 > tocs.length) return level;
  }
  return 2;
}

/**
 * Put sections with the same heading into one row. Rows keep the order of the first document;
 * what only others have comes after the section that it follows there.
 * @param {Section[][]} documents
 * @returns {Row[]}
 */
export function align(documents) {
  const rows = [];
  documents.forEach((sections, column) => {
    const seen = new Map();
    let after = -1;
    for (const section of sections) {
      const base = section.level ? keyOf(section.heading) : "";
      const nth = seen.get(base) ?? 0;
      seen.set(base, nth + 1);
      const key = nth ? `${base} ${nth + 1}` : base;
      let at = rows.findIndex((row) => row.key === key);
      if (at < 0) {
        at = after + 1;
        rows.splice(at, 0, { key, heading: section.heading, cells: documents.map(() => null) });
      }
      rows[at].cells[column] = section;
      after = Math.max(after, at);
    }
  });
  return rows.map((row) => ({ ...row, isSame: isSame(row.cells) }));
}

function isSame(cells) {
  const plain = (cell) => cell?.text.replace(/\s+/g, " ").trim();
  return cells.every((cell) => cell && plain(cell) === plain(cells[0]));
}

const wordsOf = (text) => text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];

/** The runs of three words of a text. */
export function runsOf(text) {
  const words = wordsOf(text);
  return new Set(words.slice(2).map((word, n) => `${words[n]} ${words[n + 1]} ${word}`));
}

/** The runs of three words that all other cells of a row have too. */
export function sharedRuns(cells, column) {
  const others = cells.filter((cell, n) => cell && n !== column).map((cell) => runsOf(cell.text));
  if (!others.length || !cells[column] || others.length < cells.length - 1) return null;
  return new Set([...runsOf(cells[column].text)].filter((run) => others.every((runs) => runs.has(run))));
}

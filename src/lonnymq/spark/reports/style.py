"""The page's style sheet, light and dark, and the script that sorts its table."""

from __future__ import annotations

CSS = """
:root {
  color-scheme: light dark;
  --ink: #22303c; --soft: #62707c; --line: #dfe5ea; --ground: #f5f7f9; --sheet: #ffffff;
  --accent: #2a6f97; --tint: #2a6f9724; --warn: #c0503a;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #dbe3ea; --soft: #93a1ad; --line: #2c3944; --ground: #11181e; --sheet: #19222a;
    --accent: #6fb1d6; --tint: #6fb1d62e; --warn: #ef8f78;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
}
main { max-width: 1180px; margin: 0 auto; padding: 28px 16px 48px; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0; }
h2 { font-size: 1.05rem; margin: 0 0 2px; }
p { margin: 0; }
.soft { color: var(--soft); font-size: .87rem; }
.warning { color: var(--warn); margin-top: 8px; max-width: 78ch; }
.cards {
  display: grid; grid-template-columns: repeat(4, 1fr); gap: 12px; margin: 22px 0 12px;
}
.card, .sheet { background: var(--sheet); border: 1px solid var(--line); border-radius: 10px; }
.card { padding: 12px 14px; }
.card b { display: block; font-size: 1.5rem; font-weight: 650; line-height: 1.25; white-space: nowrap; }
.sheet { padding: 16px; margin-top: 12px; min-width: 0; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 430px), 1fr)); gap: 12px; }
.pair > .sheet { margin-top: 0; }
.pair > .whole { grid-column: 1 / -1; }
.plot svg { display: block; width: 100%; height: auto; }
.plot text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif !important; }
.narrow { display: none; }
.legend {
  display: flex; flex-wrap: wrap; gap: 2px 14px; margin: 8px 0 6px; font-size: .84rem; color: var(--soft);
}
.legend span { overflow-wrap: anywhere; }
.legend i {
  display: inline-block; width: 10px; height: 10px; border-radius: 3px; margin-right: 6px;
  background: var(--of);
}
.scroll { overflow-x: auto; margin: 10px -16px 0; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .88rem; }
th, td { padding: 6px 8px; text-align: right; white-space: nowrap; border-top: 1px solid var(--line); }
thead th { border-top: 0; font-weight: 600; padding: 0; }
th:first-child, td:first-child {
  text-align: left; position: sticky; left: 0; background: var(--sheet); padding-left: 16px;
  max-width: 240px; overflow: hidden; text-overflow: ellipsis; unicode-bidi: isolate;
}
thead th:first-child { padding-left: 6px; }
th:last-child, td:last-child { padding-right: 16px; }
td.bar { background: linear-gradient(var(--tint), var(--tint)) right / var(--part) 100% no-repeat; }
td.warn { color: var(--warn); font-weight: 600; }
tbody tr:hover td { background-color: var(--tint); }
tbody tr:hover td:first-child {
  background: linear-gradient(var(--tint), var(--tint)), linear-gradient(var(--sheet), var(--sheet));
}
tfoot td { color: var(--soft); }
tfoot tr:last-child td { color: var(--ink); font-weight: 650; border-top: 2px solid var(--line); }
th button {
  all: unset; cursor: pointer; padding: 6px 8px; color: var(--soft); white-space: nowrap;
}
th button:hover, th[aria-sort] button { color: var(--accent); }
th button:focus-visible { outline: 2px solid var(--accent); border-radius: 6px; }
th[aria-sort=ascending] button::after { content: " \\2191"; }
th[aria-sort=descending] button::after { content: " \\2193"; }
dl { margin: 8px 0 0; display: grid; gap: 8px; max-width: 78ch; }
dt { font-weight: 600; }
dd { margin: 0; color: var(--soft); }
footer { margin-top: 20px; }
@media (max-width: 760px) { .cards { grid-template-columns: repeat(2, 1fr); gap: 8px; } }
@media (max-width: 560px) {
  main { padding: 18px 10px 32px; }
  .card b { font-size: 1.2rem; }
  .sheet { padding: 12px; }
  .plot .wide { display: none; }
  .narrow { display: block; }
  .scroll { margin: 8px -12px 0; }
  th:first-child, td:first-child { max-width: 42vw; padding-left: 12px; }
}
@media print { .scroll { overflow: visible; } }
"""

SCRIPT = """
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const head = button.closest("th"), body = head.closest("table").tBodies[0];
    const column = head.cellIndex, isName = column === 0;
    const was = head.getAttribute("aria-sort");
    const isUp = was ? was === "descending" : isName;
    const way = isUp ? "ascending" : "descending", sign = isUp ? 1 : -1;
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", way);
    const value = (row) => row.cells[column].dataset.v;
    const compare = (a, b) => {
      const x = value(a), y = value(b);
      if (isName) return sign * x.localeCompare(y);
      if (x === "" || y === "") return (x === "") - (y === "");
      return sign * (x - y);
    };
    body.append(...[...body.rows].sort(compare));
  });
}
"""

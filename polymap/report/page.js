"use strict";
// Tables: a click or Enter on a column's name sorts by it, a second one the other way round.
for (const table of document.querySelectorAll("table")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.firstElementChild.addEventListener("click", () => {
    const rising = head.getAttribute("aria-sort") !== "ascending";
    for (const other of heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", rising ? "ascending" : "descending");
    const key = row => row.cells[column].dataset.sort;
    const rows = [...table.tBodies[0].rows];
    const numeric = rows.every(row => key(row) === "" || !Number.isNaN(Number(key(row))));
    const compare = (a, b) => numeric ? Number(key(a)) - Number(key(b)) : key(a).localeCompare(key(b));
    rows.sort((a, b) => rising ? compare(a, b) : compare(b, a));
    table.tBodies[0].append(...rows);
  }));
}
// Digits jump to sections.
document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const section = document.querySelectorAll("section")[Number(event.key) - 1];
  if (/^[1-9]$/.test(event.key) && section) {
    section.scrollIntoView();
    section.focus({ preventScroll: true });
  }
});

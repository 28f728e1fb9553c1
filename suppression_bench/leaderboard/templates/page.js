"use strict";
const form = document.getElementById("filters");
const shown = document.getElementById("shown");
const boards = [...document.querySelectorAll("table.board")];
const entries = [...document.querySelectorAll("tbody.entry")];

// What sorts a row stands in data-value; rows without a value come last in both directions.
function compare(first, second, column, numeric, direction) {
  const [a, b] = [first, second].map((body) => body.rows[0].cells[column].dataset.value);
  if (a === "" || b === "") return (a === "") - (b === "");
  return direction * (numeric ? Number(a) - Number(b) : a.localeCompare(b, "en", { numeric: true }));
}

function sort(table, head) {
  const first = head.dataset.first;
  const other = first === "ascending" ? "descending" : "ascending";
  const order = head.getAttribute("aria-sort") === first ? other : first;
  for (const one of table.tHead.rows[0].cells) one.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", order);
  const direction = order === "ascending" ? 1 : -1;
  const numeric = "numeric" in head.dataset;
  const bodies = [...table.tBodies];
  bodies.sort((a, b) => compare(a, b, head.cellIndex, numeric, direction));
  table.append(...bodies);
  shown.textContent = `Sorted by ${head.textContent}, ${order}. ${counted()}`;
}

function counted() {
  const visible = entries.filter((body) => !body.hidden && !body.closest("section").hidden).length;
  return `${visible} of ${entries.length} ${entries.length === 1 ? "entry" : "entries"} shown.`;
}

function filter() {
  const { track, level, labels } = Object.fromEntries(new FormData(form));
  for (const section of document.querySelectorAll("section.track")) {
    section.hidden = track !== "" && section.dataset.track !== track;
  }
  for (const body of entries) {
    const low = Number(body.dataset.level) < Number(level);
    body.hidden = low || (labels !== "" && body.dataset.labels !== labels);
  }
  for (const table of boards) {
    const empty = [...table.tBodies].every((body) => body.hidden);
    table.hidden = empty;
    table.nextElementSibling.hidden = !empty;
  }
  shown.textContent = counted();
}

// An address that ends in #entry-NAME opens that entry.
function open() {
  const body = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!body || !body.matches("tbody.entry")) return;
  if (body.hidden || body.closest("section").hidden) {
    form.reset();
    filter();
  }
  body.querySelector("details").open = true;
  body.scrollIntoView();
}

for (const table of boards) {
  table.classList.add("live");
  for (const head of table.tHead.rows[0].cells) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sort(table, head));
    head.append(button);
  }
}
form.hidden = false;
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("change", filter);
window.addEventListener("hashchange", open);
filter();
open();

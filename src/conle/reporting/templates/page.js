"use strict";
const everyElement = (selector, root = document) => [...root.querySelectorAll(selector)];

// A heading sorts its table; entries without a number stay below those with one.
everyElement("thead button").forEach((button) => button.addEventListener("click", () => {
  const heading = button.parentElement, table = heading.closest("table"), body = table.tBodies[0];
  const column = heading.cellIndex;
  const down = heading.getAttribute("aria-sort") === "ascending";
  const key = (row) => {
    const cell = row.cells[column];
    return "value" in cell.dataset ? Number(cell.dataset.value) : cell.textContent;
  };
  const rows = [...body.rows].sort((a, b) => {
    const x = key(a), y = key(b);
    if (typeof x !== typeof y) return typeof x === "number" ? -1 : 1;
    const order = typeof x === "number" ? x - y : x.localeCompare(y);
    return down ? -order : order;
  });
  everyElement("th[aria-sort]", table).forEach((other) => other.removeAttribute("aria-sort"));
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  body.append(...rows);
}));

// The button below a table saves it as CSV, with all digits.
everyElement("[data-csv]").forEach((button) => button.addEventListener("click", () => {
  const table = button.closest("div").querySelector("table");
  const text = (cell) => cell.dataset.value ?? [...cell.childNodes].map((part) => part.textContent).join(" ").trim();
  const lines = [...table.rows].map((row) => [...row.cells].map((cell) => `"${text(cell).replaceAll('"', '""')}"`).join(","));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([lines.join("\r\n") + "\r\n"], { type: "text/csv" }));
  link.download = `${button.dataset.csv}.csv`;
  link.click();
  URL.revokeObjectURL(link.href);
}));

// All sections with a panel per dataset show the same dataset.
const choices = everyElement("select[data-dataset]");
const choose = (dataset) => {
  choices.forEach((choice) => {
    if (![...choice.options].some((option) => option.value === dataset)) return;
    choice.value = dataset;
    everyElement("[data-panel]", choice.closest("section")).forEach((panel) => {
      panel.hidden = panel.dataset.panel !== dataset;
    });
  });
};
choices.forEach((choice) => choice.addEventListener("change", () => choose(choice.value)));

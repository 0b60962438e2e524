// Sorts a table by the column whose heading is pressed: names from A, numbers from the highest; again: reversed. Of hosts and
// disks it shows those with the words that are typed.
"use strict";
const words = new Intl.Collator("en", { numeric: true });
const filter = document.createElement("input");
Object.assign(filter, { type: "search", placeholder: "Filter hosts and disks" });
filter.setAttribute("aria-label", filter.placeholder);
filter.addEventListener("input", () => {
  const wanted = filter.value.toLowerCase().split(/\s+/);
  for (const row of document.querySelectorAll("#disks tbody tr, #hosts tbody tr")) {
    const text = row.textContent.toLowerCase();
    row.hidden = !wanted.every((word) => text.includes(word));
  }
});
document.querySelector("table.sortable").closest("section").before(filter);
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const keyed = [...body.rows].map((row) => {
        const cell = row.cells[column], text = cell.textContent;
        const isName = column === 0 || cell.className === "text";
        return { row, text, number: isName ? NaN : parseFloat(text.replace("×", "")) };
      });
      const isNumber = keyed.some((key) => !Number.isNaN(key.number));
      const before = head.getAttribute("aria-sort");
      const up = before ? before === "descending" : !isNumber;
      const compare = (a, b) => {
        if (!isNumber) return (up ? 1 : -1) * words.compare(a.text, b.text);
        // What has no number is last in both directions.
        if (Number.isNaN(a.number) || Number.isNaN(b.number)) return Number.isNaN(a.number) - Number.isNaN(b.number);
        return (up ? 1 : -1) * (a.number - b.number);
      };
      keyed.sort(compare);
      const sorted = document.createDocumentFragment();
      keyed.forEach((key) => sorted.append(key.row));
      body.append(sorted);
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
    });
  });
}

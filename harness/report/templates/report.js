"use strict";
(() => {
  const page = document.documentElement;
  const form = document.querySelector(".filters");
  const [phase, verdict, lane] = ["phase", "verdict", "lane"].map((name) => document.getElementById("filter-" + name));
  const count = document.getElementById("filter-count");
  const columns = document.getElementById("all-columns");
  const matrix = document.querySelector(".matrix");

  const shows = (element) =>
    (!phase.value || element.dataset.phase === phase.value) &&
    (!verdict.value || element.dataset.verdict === verdict.value) &&
    element.dataset.lane.toLowerCase().includes(lane.value.trim().toLowerCase());

  function apply() {
    for (const element of document.querySelectorAll("[data-lane]")) element.hidden = !shows(element);
    for (const group of document.querySelectorAll("[data-group]")) group.hidden = !group.querySelector("[data-lane]:not([hidden])");
    const rows = [...matrix.querySelectorAll("tr[data-lane]")];
    const shown = rows.filter((row) => !row.hidden).length;
    count.value = shown === rows.length ? "" : `${shown} of ${rows.length} lanes`;
  }

  function showColumns() {
    matrix.classList.toggle("all", columns.checked);
    // A column that is not shown must not be counted in the span of the phases' headings.
    const visible = [...matrix.tHead.rows[0].cells].filter((cell) => columns.checked || !cell.classList.contains("quiet"));
    for (const heading of matrix.querySelectorAll(".group th")) heading.colSpan = visible.length;
  }

  page.classList.add("js");
  form.hidden = false;
  const nothingHidden = !matrix.querySelector("thead .quiet");
  columns.closest("p").hidden = nothingHidden;
  if (!matrix.querySelector("thead th:not(.quiet):nth-child(n+3)")) columns.checked = true;
  for (const control of [phase, verdict, lane]) control.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  columns.addEventListener("change", showColumns);

  // A link to a case leads into a closed finding, which not every browser opens by itself.
  function reveal() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const finding = target && target.closest("details.finding");
    if (finding && !finding.open) {
      finding.open = true;
      target.scrollIntoView();
    }
  }
  addEventListener("hashchange", reveal);
  reveal();

  const scrollers = [...document.querySelectorAll(".scroll")];
  function hint(scroller) {
    const rest = scroller.scrollWidth - scroller.clientWidth - scroller.scrollLeft;
    scroller.classList.toggle("wide", scroller.scrollWidth > scroller.clientWidth + 1);
    scroller.classList.toggle("more", rest > 1);
  }
  const resized = new ResizeObserver((entries) => entries.forEach((entry) => hint(entry.target.closest(".scroll"))));
  for (const scroller of scrollers) {
    scroller.addEventListener("scroll", () => hint(scroller), { passive: true });
    resized.observe(scroller);
    for (const content of scroller.children) resized.observe(content);
  }

  showColumns();
  apply();
})();

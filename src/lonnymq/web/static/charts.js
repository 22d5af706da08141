// Draws <div class="chart" data-series='{...}'> with uPlot: {x: [seconds], lines: [{label, values, colour}], unit}.
"use strict";

(() => {
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const drawn = new Map();

  // In UTC; with the day if the marks are hours apart.
  function clock(seconds, marks) {
    const text = new Date(seconds * 1e3).toISOString();
    return marks.length > 1 && marks[1] - marks[0] >= 3600 ? text.slice(5, 16).replace("T", " ") : text.slice(11, 19);
  }

  function options(element, series) {
    const axis = { stroke: style("--quiet"), grid: { stroke: style("--line") }, ticks: { stroke: style("--line") } };
    return {
      width: Math.max(200, element.clientWidth),
      height: 200,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1e3), "UTC"),
      legend: { live: false },
      cursor: { drag: { x: false, y: false } },
      axes: [{ ...axis, space: 90, values: (_, marks) => marks.map((mark) => clock(mark, marks)) }, { ...axis, size: 60, values: (_, marks) => marks.map((mark) => `${mark}${series.unit || ""}`) }],
      series: [
        {},
        ...series.lines.map((line) => ({ label: line.label, stroke: style(`--${line.colour}`), width: 2, spanGaps: true, points: { show: false } })),
      ],
    };
  }

  function draw(element) {
    const series = JSON.parse(element.dataset.series);
    const data = [series.x, ...series.lines.map((line) => line.values)];
    const before = drawn.get(element);
    if (before) before.destroy();
    drawn.set(element, new uPlot(options(element, series), data, element));
  }

  function drawAll() {
    for (const element of drawn.keys()) if (!element.isConnected) drawn.delete(element);
    for (const element of document.querySelectorAll(".chart[data-series]")) draw(element);
  }

  document.addEventListener("DOMContentLoaded", drawAll);
  document.addEventListener("htmx:afterSettle", drawAll);
  window.addEventListener("resize", drawAll);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
})();

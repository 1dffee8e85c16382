"use strict";
(async () => {
  const json = (id) => JSON.parse(document.getElementById(id).textContent);
  const data = json("sample-data");
  await Bokeh.embed.embed_item(json("sample-chart-json"));
  const chart = Bokeh.documents.at(-1);
  const model = (name) => chart.get_model_by_name(name);
  const form = document.getElementById("sample-form");
  const { dataset, sample } = form.elements;
  const methods = form.querySelector("fieldset");
  const SHOWN = ["ConLE", "ConLE posterior", "label posterior"];
  // Ten colours that the colour-blind can tell apart; further methods have other markers.
  const COLOURS = ["#3f90da", "#ffa90e", "#bd1f01", "#94a4a2", "#832db6", "#a96b59", "#e76300", "#b9ac70", "#717581", "#92dadd"];
  const MARKERS = [["circle", "●"], ["square", "■"], ["triangle", "▲"]];
  const options = (select, texts) => select.replaceChildren(...texts.map((text, i) => new Option(text, i)));

  function showDataset() {
    const own = data[dataset.value];
    const drawn = own.methods.find((method) => method.low);
    options(sample, own.samples.map((number, i) => drawn?.low[i] ? `${number}, with intervals` : number));
    methods.replaceChildren(...own.methods.map((method, i) => {
      const box = Object.assign(document.createElement("input"), { type: "checkbox", value: i, checked: SHOWN.includes(method.name) });
      const swatch = Object.assign(document.createElement("span"), { textContent: MARKERS[Math.floor(i / 10) % 3][1] });
      swatch.style.color = COLOURS[i % 10];
      const label = document.createElement("label");
      label.append(box, swatch, ` ${method.name}`);
      return label;
    }));
    showSample();
  }

  function showSample() {
    const own = data[dataset.value], row = sample.value;
    const relevant = own.relevant[row];
    const shown = [...methods.querySelectorAll(":checked")].map((box) => [Number(box.value), own.methods[box.value]]);
    const factors = own.labels.map((label, i) => label + (relevant[i] ? " ✓" : ""));
    const say = (i, title, degree) => `${own.labels[i]}, ${title}: ${degree}`;
    model("labels").factors = factors;
    model("label-axis").major_label_orientation = own.labels.length > 8 ? "vertical" : own.labels.length > 3 ? 0.6 : "horizontal";
    model("bars").data = {
      x: factors, degree: own.true[row],
      alpha: relevant.map((value) => value ? 0.55 : 0.2),
      text: own.true[row].map((degree, i) => say(i, relevant[i] ? "relevant, true" : "true", degree)),
    };
    const points = { x: [], degree: [], low: [], high: [], colour: [], marker: [], text: [] };
    shown.forEach(([number, method], position) => method.degrees[row].forEach((degree, i) => {
      const low = method.low?.[row]?.[i], high = method.high?.[row]?.[i];
      const place = 0.7 * ((position + 0.5) / shown.length - 0.5);
      const text = say(i, method.name, degree) + (low === undefined ? "" : ` (90 %: ${low} to ${high})`);
      const values = [[factors[i], place], degree, low ?? NaN, high ?? NaN, COLOURS[number % 10], MARKERS[Math.floor(number / 10) % 3][0], text];
      Object.values(points).forEach((column, k) => column.push(values[k]));
    }));
    model("points").data = points;
    const table = document.getElementById("sample-values");
    const lines = [["label", "relevant", "true", ...shown.map(([, method]) => method.name)],
      ...own.labels.map((label, i) => [label, relevant[i] ? "yes" : "no", own.true[row][i], ...shown.map(([, method]) => method.degrees[row][i])])];
    table.replaceChildren();
    lines.forEach((line, i) => line.forEach((text, k) => {
      const cell = document.createElement(i && k ? "td" : "th");
      cell.textContent = text;
      if (typeof text === "number") cell.dataset.value = text;
      (k ? table.rows[i] : table.insertRow()).append(cell);
    }));
    document.getElementById("sample-title").textContent = `Values of sample ${own.samples[row]} of ${own.name}`;
  }

  function paint(ink) {
    for (const axis of [model("label-axis"), model("degree-axis")])
      axis.setv({ major_label_text_color: ink, axis_label_text_color: ink, axis_line_color: ink, major_tick_line_color: ink, minor_tick_line_color: null });
  }

  const paintAsPage = () => paint(getComputedStyle(document.body).color);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paintAsPage);
  addEventListener("beforeprint", () => paint("black"));
  addEventListener("afterprint", paintAsPage);
  dataset.addEventListener("change", showDataset);
  sample.addEventListener("change", showSample);
  methods.addEventListener("change", showSample);
  options(dataset, data.map((own) => own.name));
  paintAsPage();
  showDataset();
})();

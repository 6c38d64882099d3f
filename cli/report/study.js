{
  const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const dark = matchMedia("(prefers-color-scheme: dark)");
  // Optuna's blues are made for white paper: on dark the strongest would be the least visible
  const turned = value => typeof value === "string"
    ? value.replace(/^rgb\(([^)]*)\)$/, (_, parts) => "rgb(" + parts.split(",").map(p => 255 - Number(p)).join(",") + ")")
    : Array.isArray(value) ? value.map(turned)
    : value && typeof value === "object" ? Object.fromEntries(Object.entries(value).map(([k, v]) => [k, turned(v)]))
    : value;
  const draw = () => {
    for (const div of document.querySelectorAll("div.study")) {
      const made = JSON.parse(document.getElementById(div.dataset.figure).textContent);
      const layout = {...made.layout, autosize: true, paper_bgcolor: "transparent", plot_bgcolor: "transparent",
        font: {color: css("--ink"), family: "system-ui, sans-serif"}, legend: {orientation: "h", y: 1.12}, hoverlabel: {align: "left"},
        height: 340, margin: {l: 60, r: 20, t: 40, b: 50}};
      for (const name of Object.keys(made.layout).filter(k => /^[xy]axis/.test(k)))
        layout[name] = {...made.layout[name], gridcolor: css("--line"), zerolinecolor: css("--line"), automargin: true};
      Plotly.react(div, dark.matches ? turned(made.data) : made.data, layout, {responsive: true, displaylogo: false});
    }
  };
  dark.addEventListener("change", draw);
  window.drawStudies = draw;
  draw();
}

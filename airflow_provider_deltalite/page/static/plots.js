// Draws the growth of a table with uPlot. A drag zooms in, and a double click shows all versions again.
(() => {
  const root = document.documentElement;
  const figures = [...document.querySelectorAll("[data-growth]")];
  if (!figures.length || typeof uPlot === "undefined") return;

  // A canvas does not know CSS variables, so an element resolves them.
  const probe = document.createElement("span");
  probe.hidden = true;
  document.body.append(probe);
  const colors = {};
  const readColors = () => {
    for (const name of ["text", "muted", "line", "link", "green"]) {
      probe.className = `color-${name}`;
      colors[name] = getComputedStyle(probe).color;
    }
  };
  readColors();

  const count = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  const bytes = (value) => {
    const power = value > 0 ? Math.min(units.length - 1, Math.floor(Math.log2(value) / 10)) : 0;
    const scaled = value / 1024 ** power;
    return `${power && scaled < 100 ? scaled.toFixed(1) : Math.round(scaled)} ${units[power]}`;
  };
  const shortCount = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
  const formats = {
    rows: { exact: (value) => count.format(value), short: (value) => shortCount.format(value) },
    files: { exact: (value) => count.format(value), short: (value) => shortCount.format(value) },
    bytes: { exact: bytes, short: bytes },
  };
  const moment = (seconds) => new Date(seconds * 1000).toISOString().slice(0, 19).replace("T", " ") + " UTC";

  // Days as 2026-03-01, and times of a day as 12:00.
  const ticks = (_, seconds, __, ___, step) =>
    seconds.map((value) => (step < 86400 && value % 86400 ? moment(value).slice(11, 16) : moment(value).slice(0, 10)));

  const plots = [];
  for (const figure of figures) {
    const values = JSON.parse(figure.dataset.growth);
    const versionAt = new Map(values.versions.map((version, index) => [version, index]));
    const checkpoints = values.checkpoints.map((version) => values.times[versionAt.get(version)]);
    const sync = { key: "growth", setSeries: false };

    // Short marks on the axis of the times.
    const drawCheckpoints = (plot) => {
      const { ctx, bbox } = plot;
      ctx.save();
      ctx.strokeStyle = colors.green;
      ctx.lineWidth = 2 * devicePixelRatio;
      for (const time of checkpoints) {
        const x = plot.valToPos(time, "x", true);
        if (x < bbox.left || x > bbox.left + bbox.width) continue;
        ctx.beginPath();
        ctx.moveTo(x, bbox.top + bbox.height);
        ctx.lineTo(x, bbox.top + bbox.height - 8 * devicePixelRatio);
        ctx.stroke();
      }
      ctx.restore();
    };

    for (const name of ["rows", "bytes", "files"]) {
      const target = figure.querySelector(`[data-plot=${name}]`);
      const axis = { stroke: () => colors.muted, grid: { stroke: () => colors.line, width: 1 }, ticks: { show: false } };
      const plot = new uPlot(
        {
          width: target.clientWidth,
          height: 180,
          tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
          cursor: { sync, y: false, drag: { x: true, y: false } },
          axes: [{ ...axis, space: 90, size: 30, values: ticks }, { ...axis, size: 70, values: (_, splits) => splits.map(formats[name].short) }],
          scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.05 : 1] } },
          series: [
            { label: "Version", value: (_, __, ___, index) => (index === null ? "–" : `${values.versions[index]}, ${moment(values.times[index])}`) },
            {
              label: name === "bytes" ? "Size" : name === "rows" ? "Rows" : "Files",
              stroke: () => colors.link,
              width: 1.5,
              paths: uPlot.paths.stepped({ align: 1 }),
              points: { size: 5, stroke: () => colors.link },
              value: (_, value) => (value == null ? "–" : formats[name].exact(value)),
            },
          ],
          hooks: { draw: [drawCheckpoints] },
        },
        [values.times, values[name]],
        target,
      );
      plots.push([plot, target]);
    }
  }

  const redraw = () => {
    readColors();
    for (const [plot] of plots) plot.redraw(false);
  };
  new MutationObserver(redraw).observe(root, { attributes: true, attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  const resize = new ResizeObserver(() => {
    for (const [plot, target] of plots) {
      if (target.clientWidth && target.clientWidth !== plot.width) plot.setSize({ width: target.clientWidth, height: 180 });
    }
  });
  for (const figure of figures) resize.observe(figure);
})();

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
    for (const name of ["text", "muted", "line", "link", "green", "amber"]) {
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
    const text = power && scaled < 100 && scaled % 1 ? scaled.toFixed(1) : Math.round(scaled);
    return `${text} ${units[power]}`;
  };
  const shortCount = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
  const decimal = new Intl.NumberFormat("en", { maximumFractionDigits: 3 });
  const powers = (base, count) => Array.from({ length: count }, (_, power) => base ** power);
  const steps = (bases, factors) => bases.flatMap((base) => factors.map((factor) => base * factor));

  // The texts of a number at the pointer and on an axis, and the steps between the ticks of the axis.
  const counts = { exact: (value) => count.format(value), short: (value) => shortCount.format(value), steps: steps(powers(10, 15), [1, 2, 5]) };
  const sizes = { exact: bytes, short: bytes, steps: steps(powers(1024, 6), [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]) };
  const percents = {
    exact: (value) => `${value.toFixed(1)} %`,
    short: (value) => `${+value.toFixed(1)} %`,
    steps: steps([0.1, 1, 10], [1, 2, 5]),
  };
  const durations = {
    exact: (value) => `${decimal.format(value)} s`,
    short: (value) => `${shortCount.format(value)} s`,
    steps: steps([0.1, ...powers(10, 15)], [1, 2, 5]),
  };
  const kinds = {
    rows: { label: "Rows", numbers: counts },
    bytes: { label: "Size", numbers: sizes },
    files: { label: "Files", numbers: counts },
    deleted: { label: "Share", numbers: percents },
    log: { label: "Size", numbers: sizes },
    seconds: { label: "Duration", numbers: durations, isOfCommit: true },
    meanwhile: { label: "Versions", numbers: counts, isOfCommit: true },
    replans: { label: "Replans", numbers: counts, isOfCommit: true },
  };
  // A line shows a state, which lasts until the next version. A bar shows a number of one commit.
  const bars = uPlot.paths.bars({ size: [0.6, 12, 3] });
  const line = uPlot.paths.stepped({ align: 1 });
  const moment = (seconds) => new Date(seconds * 1000).toISOString().slice(0, 19).replace("T", " ") + " UTC";

  // Days as 2026-03-01, and times of a day as 12:00, or as 12:00:30 if the ticks are less than a minute apart.
  const ticks = (_, seconds, __, ___, step) =>
    seconds.map((value) => {
      if (step >= 86400 || value % 86400 === 0) return moment(value).slice(0, 10);
      return moment(value).slice(11, step < 60 ? 19 : 16);
    });

  const plots = [];
  for (const figure of figures) {
    const values = JSON.parse(figure.dataset.growth);
    const versionAt = new Map(values.versions.map((version, index) => [version, index]));
    const timesOf = (versions) => versions.map((version) => values.times[versionAt.get(version)]);
    const marks = [
      { times: timesOf(values.checkpoints), color: "green", isAtTop: false },
      { times: timesOf(values.optimizes), color: "amber", isAtTop: true },
    ];
    const sync = { key: "growth", setSeries: false };

    // Short marks: checkpoints on the axis of the times, and optimizes at the opposite edge.
    const drawMarks = (plot) => {
      const { ctx, bbox } = plot;
      ctx.save();
      ctx.lineWidth = 2 * devicePixelRatio;
      for (const { times, color, isAtTop } of marks) {
        ctx.strokeStyle = colors[color];
        for (const time of times) {
          const x = plot.valToPos(time, "x", true);
          if (x < bbox.left || x > bbox.left + bbox.width) continue;
          const edge = isAtTop ? bbox.top : bbox.top + bbox.height;
          ctx.beginPath();
          ctx.moveTo(x, edge);
          ctx.lineTo(x, edge + (isAtTop ? 8 : -8) * devicePixelRatio);
          ctx.stroke();
        }
      }
      ctx.restore();
    };

    for (const target of figure.querySelectorAll("[data-plot]")) {
      const name = target.dataset.plot;
      const { label, numbers, isOfCommit } = kinds[name];
      const axis = { stroke: () => colors.muted, grid: { stroke: () => colors.line, width: 1 }, ticks: { show: false } };
      const plot = new uPlot(
        {
          width: target.clientWidth,
          height: 180,
          tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
          cursor: { sync, y: false, drag: { x: true, y: false } },
          axes: [{ ...axis, space: 90, size: 30, values: ticks }, { ...axis, size: 70, incrs: numbers.steps, values: (_, splits) => splits.map((value) => numbers.short(value)) }],
          scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.05 : 1] } },
          series: [
            { label: "Version", value: (_, __, ___, index) => (index === null ? "–" : `${values.versions[index]}, ${moment(values.times[index])}`) },
            {
              label,
              stroke: () => colors.link,
              fill: isOfCommit ? () => colors.link : undefined,
              width: 1.5,
              paths: isOfCommit ? bars : line,
              points: isOfCommit ? { show: false } : { size: 5, stroke: () => colors.link },
              value: (_, value) => (value == null ? "–" : numbers.exact(value)),
            },
          ],
          hooks: { draw: [drawMarks] },
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

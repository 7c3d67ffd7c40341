/* Draws the charts of a page with uPlot: decodes their lines, follows the theme and the width. */
"use strict";
(() => {
  const NS = 1e9;
  const drawn = new Map(); // element of a chart -> its uPlot
  let zoom = null; // ends of the time axis that the reader chose, s
  let printing = false;

  const style = name => {
    const found = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    return printing ? PAPER[name] || found : found;
  };
  const PAPER = {
    "--ink": "#1c2430", "--soft": "#5b6675", "--line": "#dfe4ea", "--grey": "#8a94a6",
    "--c0": "#1f5fbf", "--c1": "#d97706", "--c2": "#2e7d32", "--c3": "#8e24aa", "--c4": "#c62828",
    "--c5": "#00838f",
  };
  const COLORS = 6;
  const color = k => style(k < 0 ? "--grey" : `--c${k % COLORS}`);

  // -- decoding: see rtsim/record/reports/charts.py

  const buffer = text => Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer;

  function times(packed) {
    if (packed.all !== undefined) return Array.from(new Float64Array(buffer(packed.all)));
    const gaps = new Uint16Array(buffer(packed.gaps));
    let ns = packed.first;
    return [ns / NS, ...Array.from(gaps, gap => (ns += gap * packed.unit) / NS)];
  }

  function values(packed) {
    const shown = v => (Number.isFinite(v) ? v : null);
    if (packed.all !== undefined) return Array.from(new Float64Array(buffer(packed.all)), shown);
    return Array.from(new Float32Array(buffer(packed.off)), v => shown(packed.first + v));
  }

  /* Two values at one time are a jump: the later one is drawn an invisible step to the right. */
  function increasing(x) {
    const step = Math.max(1e-12, (x[x.length - 1] - x[0]) * 1e-12);
    for (let i = 1; i < x.length; i++) if (x[i] <= x[i - 1]) x[i] = x[i - 1] + step;
    return x;
  }

  /* Stairs hold a value at the times x of other lines too, but not after their own end. */
  function held(y, x, end) {
    for (let i = 1; i < y.length && x[i] <= end; i++) if (y[i] === undefined) y[i] = y[i - 1];
  }

  // -- text of axes and legend

  /* The decimals that show every multiple of a step, such as 1 for 2.5. */
  function decimals(step) {
    let count = 0;
    while (count < 12 && Math.abs(step - Number(step.toFixed(count))) > 1e-6 * step) count++;
    return count;
  }

  function ticks(splits, step) {
    const most = Math.max(...splits.map(Math.abs));
    if (most >= 1e6 || (most > 0 && most < 1e-4)) {
      const digits = Math.min(8, Math.max(0, Math.ceil(Math.log10(most / step))));
      return splits.map(v => (v === 0 ? "0" : v.toExponential(digits).replace("e+", "e")));
    }
    return splits.map(v => v.toFixed(decimals(step)));
  }

  const number = v => (v == null ? "–" : String(+v.toPrecision(7)));

  function room(u, texts) {
    const longest = Math.max(0, ...(texts || []).map(t => (t || "").length));
    return Math.max(34, 18 + 7 * longest);
  }

  // -- options of uPlot

  function range(u, low, high) {
    if (low == null || !Number.isFinite(low)) return [0, 1];
    const most = Math.max(Math.abs(low), Math.abs(high));
    if (high - low <= 1e-9 * most || high === low) {
      const pad = most > 0 ? 0.1 * most : 1;
      return [low - pad, high + pad];
    }
    return [low - 0.06 * (high - low), high + 0.06 * (high - low)];
  }

  function axis(label, more) {
    return {
      stroke: style("--soft"), font: "11px system-ui, sans-serif", label: label || undefined,
      labelFont: "11px system-ui, sans-serif", labelSize: label ? 18 : 0, labelGap: 0,
      grid: {stroke: style("--line"), width: 1}, ticks: {stroke: style("--line"), width: 1},
      values: (u, splits, _a, _s, step) => ticks(splits, step), size: room, ...more,
    };
  }

  function vertical(chart) {
    if (chart.rows.length) {
      return axis("", {
        splits: () => chart.rows.map((_, k) => k), values: () => chart.rows,
        size: () => 20 + 6.2 * Math.max(...chart.rows.map(r => r.length)),
      });
    }
    return chart.log ? logarithmic(chart.y, {}) : axis(chart.y, {});
  }

  function logarithmic(label, more) {
    const power = v => Math.abs(Math.log10(v) - Math.round(Math.log10(v))) < 1e-9;
    const values = (u, splits) => splits.map(v => (power(v) ? String(+v) : ""));
    return axis(label, {values, ...more});
  }

  function series(line, chart) {
    const stroke = color(line.color);
    const alone = line.points || line.size < 2;
    return {
      label: line.name, stroke: chart.path ? "transparent" : stroke, value: (u, v) => number(v),
      width: line.wide ? 6 : line.points ? 0 : 1.4, dash: line.dashed ? [6, 4] : undefined,
      paths: line.stairs ? uPlot.paths.stepped({align: 1})
        : line.points ? () => null : uPlot.paths.linear(),
      points: {show: alone || line.wide, size: line.points ? 4 : 6, fill: stroke, stroke,
               filter: undefined},
    };
  }

  /* Shades spans of the horizontal axis, each [from, to, number of its colour]. */
  function shade(u, spans) {
    const {ctx, bbox} = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.globalAlpha = 0.18;
    for (const [from, to, k] of spans) {
      ctx.fillStyle = color(k);
      const left = u.valToPos(from, "x", true), right = u.valToPos(to, "x", true);
      ctx.fillRect(left, bbox.top, Math.max(right - left, 1.5), bbox.height);
    }
    ctx.restore();
  }

  /* Bars in the rows of a timeline; the shortest bar is still visible. */
  function bars(u, chart) {
    const {ctx, bbox} = u;
    const half = 0.32 * Math.abs(u.valToPos(1, "y", true) - u.valToPos(0, "y", true));
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    for (const {row, color: k, x} of chart.bars) {
      ctx.fillStyle = color(k);
      const middle = u.valToPos(row, "y", true), high = k < 0 ? 0.4 * half : half;
      for (let i = 0; i + 1 < x.length; i += 2) {
        const left = u.valToPos(x[i], "x", true), right = u.valToPos(x[i + 1], "x", true);
        if (right < bbox.left || left > bbox.left + bbox.width) continue;
        const gap = right - left > 6 ? 1 : 0; // between two jobs, one after the other
        ctx.fillRect(left, middle - high, Math.max(right - left - gap, 0.5), 2 * high);
      }
    }
    ctx.restore();
  }

  function marks(u) {
    const found = document.getElementById("marks");
    if (!found) return;
    const {lines, spans} = JSON.parse(found.textContent);
    shade(u, spans.map(([from, to]) => [from, to, 1]));
    const {ctx, bbox} = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.globalAlpha = 0.7;
    ctx.strokeStyle = color(4);
    ctx.setLineDash([2, 3]);
    for (const t of lines) {
      const x = Math.round(u.valToPos(t, "x", true)) + 0.5;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  }

  /* A path may go back in x, which the lines of uPlot cannot. */
  function paths(u, lines) {
    const {ctx, bbox} = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.lineWidth = 1.4 * devicePixelRatio;
    for (const line of lines) {
      ctx.strokeStyle = color(line.color);
      ctx.setLineDash(line.dashed ? [6, 4] : []);
      ctx.beginPath();
      let down = false;
      line.x.forEach((x, i) => {
        if (x == null || line.y[i] == null) return void (down = false);
        const at = [u.valToPos(x, "x", true), u.valToPos(line.y[i], "y", true)];
        if (down) ctx.lineTo(...at); else ctx.moveTo(...at);
        down = true;
      });
      ctx.stroke();
    }
    ctx.restore();
  }

  function ends(lines, key) {
    const all = lines.flatMap(line => line[key]).filter(v => v != null);
    return all.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [Infinity, -Infinity]);
  }

  function data(chart, lines) {
    if (chart.path) {
      const [left, right] = range(null, ...ends(lines, "x"));
      const [low, high] = ends(lines, "y");
      return [[left, right], ...lines.map(() => [low, high])];
    }
    const joined = uPlot.join(lines.map(line => [increasing(line.x), line.y]));
    lines.forEach((line, i) => line.stairs && held(joined[i + 1], joined[0], line.x.at(-1)));
    return joined;
  }

  function nearest(u, k, at) {
    let i = at;
    while (i > 0 && u.data[k][i] === undefined) i--;
    return i;
  }

  function options(chart, lines, width) {
    const log = chart.log ? {distr: 3} : {};
    const rows = chart.rows.length;
    const y = rows ? {range: [-0.6, rows - 0.4]} : chart.log ? {distr: 3} : {range};
    const draw = chart.path ? [u => paths(u, lines)] : [];
    return {
      width, height: chart.height,
      cursor: {
        drag: {x: chart.timed, y: false, setScale: false}, dataIdx: nearest,
        ...(chart.timed ? {sync: {key: "time", setSeries: false}} : {}),
        ...(chart.path ? {show: false} : {}), points: {size: 5},
      },
      legend: {show: !chart.path && !rows, live: true},
      scales: {x: {time: false, ...log, ...(chart.span ? {range: () => zoom || chart.view || chart.span} : {})}, y},
      axes: [(chart.log ? logarithmic : axis)(chart.x, {size: 30}), vertical(chart)],
      series: [{label: chart.timed ? "t" : chart.x, value: (u, v) => number(v)},
               ...lines.map(line => series(line, chart))],
      hooks: {drawAxes: [u => shade(u, chart.shaded), u => bars(u, chart), ...(chart.marks ? [marks] : [])], draw, setSelect: chart.timed ? [chosen] : []},
    };
  }

  // -- zoom: all charts over time show the same span

  function chosen(u) {
    if (u.select.width < 4) return;
    zoom = [u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")];
    u.setSelect({left: 0, top: 0, width: 0, height: 0}, false);
    zoomed();
  }

  function zoomed() {
    for (const {plot, chart} of drawn.values()) if (chart.timed) zoomOne(plot, chart);
  }

  function zoomOne(plot, chart) {
    const x = plot.data[0];
    const [min, max] = zoom || chart.view || chart.span || [x[0], x[x.length - 1]];
    if (x.length && max > min) plot.setScale("x", {min, max});
  }

  // -- drawing

  function draw(figure, width) {
    const box = figure.querySelector("div[role=img]");
    const old = drawn.get(figure);
    if (old) old.plot.destroy();
    const chart = JSON.parse(figure.querySelector("script").textContent);
    const lines = chart.lines.map(line => ({
      ...line, x: chart.path ? values(line.t) : times(line.t), y: values(line.v),
    }));
    for (const one of chart.bars) one.x = times(one.t);
    for (const line of lines) line.size = line.y.length;
    const plot = new uPlot(options(chart, lines, width || box.clientWidth), data(chart, lines), box);
    drawn.set(figure, {plot, chart, width: box.clientWidth});
    if (chart.timed) {
      if (zoom) zoomOne(plot, chart);
      plot.over.addEventListener("dblclick", () => {
        zoom = chart.view = null;
        zoomed();
      });
    }
  }

  const all = () => document.querySelectorAll("figure.chart");
  const again = width => { for (const figure of drawn.keys()) draw(figure, width); };
  const comes = new IntersectionObserver(found => {
    for (const {isIntersecting, target} of found) {
      if (isIntersecting && !drawn.has(target)) draw(target);
    }
  }, {rootMargin: "600px"});

  let waiting = 0;
  const resized = new ResizeObserver(() => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => {
      for (const [figure, {plot, chart, width}] of drawn) {
        const now = figure.querySelector("div[role=img]").clientWidth;
        if (now && now !== width && !printing) {
          plot.setSize({width: now, height: chart.height});
          drawn.get(figure).width = now;
        }
      }
    });
  });

  addEventListener("DOMContentLoaded", () => {
    for (const figure of all()) comes.observe(figure);
    resized.observe(document.body);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => again());
  addEventListener("beforeprint", () => {
    printing = true;
    for (const figure of all()) {
      if (!figure.closest("details:not([open])")) draw(figure, PRINTED_PX);
    }
  });
  addEventListener("afterprint", () => { printing = false; again(); });
  const PRINTED_PX = 640;
})();

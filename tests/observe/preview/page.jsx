// One dashboard, drawn by Grafana's own components from a live Prometheus. A preview and not Grafana:
// what the address asks for is drawn once; nothing can be chosen.
import React from 'react';
import { createRoot } from 'react-dom/client';
import { LoadingState, ThemeContext, createTheme, dateTime, getDisplayValueAlignmentFactors, reduceField, renderMarkdown } from '@grafana/data';
import { BarGauge, BigValue, GlobalStyles, PanelChrome, PortalContainer, Table, TimeSeries } from '@grafana/ui';
import { Source } from './data.js';

const ROW = 38;
const asked = new URLSearchParams(location.search);
const theme = createTheme({ colors: { mode: 'light' } });
const [from, to] = [Number(asked.get('from')), Number(asked.get('to'))];
const range = { from: dateTime(from * 1e3), to: dateTime(to * 1e3), raw: { from: 'now-1m', to: 'now' } };
const source = new Source(asked.get('prometheus'), from, to, { node: asked.get('node') });
const troubles = [];

const last = (field) => field.display(reduceField({ field, reducers: ['lastNotNull'] }).lastNotNull);

function Stat({ frames, options, width, height }) {
  return <div style={{ display: 'flex' }}>{frames.map((frame, at) => {
    const field = frame.fields[1];
    const value = { ...last(field), title: field.config.displayName };
    return <BigValue key={at} width={width / frames.length} height={height} theme={theme} value={value} colorMode="value" graphMode="none" textMode={options.textMode} text={options.text} />;
  })}</div>;
}

function Bars({ frames, options, width, height }) {
  const highest = Math.max(...frames.map((frame) => frame.fields[1].values.at(-1)), 0);
  const longest = getDisplayValueAlignmentFactors(frames.map((frame) => (
    { display: { ...last(frame.fields[1]), title: frame.fields[1].config.displayName } })));
  return frames.map((frame, at) => {
    const field = frame.fields[1];
    const config = { ...field.config, max: field.config.max ?? highest };
    return <BarGauge key={at} width={width} height={Math.min(height / frames.length, 60)} theme={theme} field={config}
      display={field.display} value={{ ...last(field), title: field.config.displayName }} orientation="horizontal" displayMode="gradient" text={options.text} namePlacement={options.namePlacement} alignmentFactors={longest} />;
  });
}

function Body({ panel, frames, width, height }) {
  if (panel.type === 'text') {
    return <div className="markdown-html" style={{ padding: 8 }} dangerouslySetInnerHTML={{ __html: renderMarkdown(panel.options.content) }} />;
  }
  if (!frames.length) return <div style={{ padding: 20 }}>No data</div>;
  switch (panel.type) {
    case 'timeseries':
      return <TimeSeries frames={frames} width={width} height={height} timeRange={range} timeZone="utc" legend={{ ...panel.options.legend, calcs: [] }} />;
    case 'stat': return <Stat frames={frames} options={panel.options} width={width} height={height} />;
    case 'bargauge': return <Bars frames={frames} options={panel.options} width={width} height={height} />;
    case 'table': return <Table data={frames[0]} width={width} height={height} initialSortBy={panel.options.sortBy} />;
    default: throw new Error(`cannot draw a ${panel.type}`);
  }
}

class Guard extends React.Component {
  state = {};

  static getDerivedStateFromError(error) { return { error }; }

  componentDidCatch(error) { troubles.push(`${this.props.title}: ${error}`); tell(); }

  render() { return this.state.error ? <pre>{String(this.state.error)}</pre> : this.props.children; }
}

function Panel({ panel, frames, column }) {
  const { x, y, w, h } = panel.gridPos;
  return <div style={{ position: 'absolute', left: x * column + 8, top: y * ROW }}>
    <Guard title={panel.title}>
      <PanelChrome title={panel.title} width={w * column - 8} height={h * ROW - 8} loadingState={LoadingState.Done}>
        {(width, height) => <Guard title={panel.title}><Body {...{ panel, frames, width, height }} /></Guard>}
      </PanelChrome>
    </Guard>
  </div>;
}

// Whoever draws the picture reads the console.
function tell() { console.info(troubles.length ? troubles.join('; ') : 'drawn'); }

async function main() {
  const dashboard = await (await fetch(asked.get('dashboard'))).json();
  const drawn = await Promise.all(dashboard.panels.map(async (panel) => {
    try {
      return [panel, panel.targets ? await source.frames(panel, theme) : []];
    } catch (error) {
      troubles.push(`${panel.title}: ${error}`);
      return [panel, []];
    }
  }));
  createRoot(document.getElementById('root')).render(
    <ThemeContext.Provider value={theme}>
      <GlobalStyles /><PortalContainer />
      <h3 style={{ padding: '8px 12px', margin: 0 }}>{dashboard.title}</h3>
      <div style={{ position: 'relative' }}>
        {drawn.map(([panel, frames]) => <Panel key={panel.id} panel={panel} frames={frames} column={(window.innerWidth - 16) / 24} />)}
      </div>
    </ThemeContext.Provider>);
  tell();
}

main();

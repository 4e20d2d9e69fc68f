// Queries of a dashboard's panel → data frames, as Grafana's Prometheus source would hand them over.
import {
  FieldType, ThresholdsMode, getDisplayProcessor, standardTransformers, standardTransformersRegistry, transformDataFrame,
} from '@grafana/data';
import { lastValueFrom } from 'rxjs';

// Some stand in the list twice, under two names.
const transformers = new Map(Object.values(standardTransformers).map((each) => [each.id, each]));
standardTransformersRegistry.setInit(() =>
  [...transformers.values()].map((each) => ({ id: each.id, name: each.name, transformation: async () => each })));

export class Source {
  constructor(url, from, to, variables) {
    Object.assign(this, { url, from, to, variables });
  }

  async frames(panel, theme) {
    const answers = await Promise.all(panel.targets.map(async (target) => [target, await this.ask(target)]));
    const made = panel.type === 'table'
      ? answers.map(([target, series]) => table(target, series, answers.length))
      : answers.flatMap(([target, series]) => series.map((each) => line(target, each)));
    const shown = panel.transformations ? await lastValueFrom(transformDataFrame(panel.transformations, made)) : made;
    shown.forEach((frame, at) => frame.fields.forEach((field) => dress(field, panel, theme, at)));
    return shown.filter((frame) => frame.length);
  }

  async ask(target) {
    const query = this.substituted(target.expr);
    const asked = target.instant
      ? `query?time=${this.to}&query=${encodeURIComponent(query)}`
      : `query_range?start=${this.from}&end=${this.to}&step=1&query=${encodeURIComponent(query)}`;
    const answer = await (await fetch(`${this.url}/api/v1/${asked}`)).json();
    if (answer.status !== 'success') throw new Error(answer.error);
    return answer.data.result;
  }

  substituted(text) {
    const own = { __range: `${Math.ceil(this.to - this.from)}s`, __rate_interval: '8s', ...this.variables };
    return text.replace(/\$\{?(\w+)\}?/g, (whole, name) => own[name] ?? whole);
  }
}

function line(target, series) {
  const values = series.values ?? [series.value];
  const named = target.legendFormat.replace(/\{\{\s*(\w+)\s*\}\}/g, (_, name) => series.metric[name] ?? '');
  const numbers = values.map((each) => Number(each[1]));
  const [min, max] = [Math.min(...numbers), Math.max(...numbers)];
  return {
    refId: target.refId,
    length: values.length,
    fields: [
      { name: 'Time', type: FieldType.time, config: {}, values: values.map((each) => each[0] * 1e3) },
      {
        name: named, type: FieldType.number, labels: series.metric, config: { displayName: named }, values: numbers,
        state: { range: { min, max, delta: max - min } },
      },
    ],
  };
}

function table(target, series, queries) {
  const labels = [...new Set(series.flatMap((each) => Object.keys(each.metric)))];
  const value = queries > 1 ? `Value #${target.refId}` : 'Value';
  const field = (name, type, values) => ({ name, type, config: {}, values });
  return {
    refId: target.refId,
    length: series.length,
    fields: [
      ...labels.map((name) => field(name, FieldType.string, series.map((each) => each.metric[name] ?? ''))),
      field(value, FieldType.number, series.map((each) => Number(each.value[1]))),
    ],
  };
}

// The panel's field configuration: defaults, then overrides by name.
function dress(field, panel, theme, at) {
  const { defaults, overrides } = panel.fieldConfig;
  const properties = overrides.filter((each) => each.matcher.options === (field.config.displayName ?? field.name))
    .flatMap((each) => each.properties).map((each) => [each.id, each.value]);
  if (field.type === FieldType.number) {
    const config = { ...defaults, ...field.config, ...Object.fromEntries(properties) };
    const steps = config.thresholds.steps.map((each) => ({ ...each, value: each.value ?? -Infinity }));
    field.config = { ...config, thresholds: { mode: ThresholdsMode.Absolute, steps } };
  }
  const width = properties.find(([id]) => id === 'custom.width');
  if (width) field.config.custom = { width: width[1] };
  field.state = { ...field.state, seriesIndex: at };
  field.display = getDisplayProcessor({ field, theme, timeZone: 'utc' });
}

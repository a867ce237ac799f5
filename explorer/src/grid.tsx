/** Channels or cells of a tensor as thumbnails that fill in one after another. */
import { useEffect, useMemo, useState } from "preact/hooks";
import { Trouble, useArrived, useJson, useLive, useSession } from "./session";
import { address, nodeOf, type View } from "./state";
import type { Scores } from "./types";

interface Unit {
  query: string;
  label: string;
  index: number;
}

const MORE = 24;
/** Thumbnails that are asked for at once: a server takes a bounded number of questions. */
const TOGETHER = 64;
const NOTHING: ReadonlySet<string> = new Set();

export function Grid() {
  const { view, model, set } = useSession();
  const node = nodeOf(model, view.q);
  const base = node ? { m: view.m, x: view.x, q: node.name } : null;
  const scores = useJson<Scores>(base ? address("scores", base, "json") : null);
  const about = `${view.m} ${view.x}`;
  const [ended, setEnded] = useState<{ about: string; queries: ReadonlySet<string> }>({ about, queries: NOTHING });
  const done = ended.about === about ? ended.queries : NOTHING;
  const note = (query: string) => setEnded((now) => ({ about, queries: new Set([...(now.about === about ? now.queries : []), query]) }));
  const cellsOnly = node && node.coords.length === 0;
  const by = cellsOnly ? "channels" : view.by;
  const units = useMemo(() => listed(node?.name ?? "", scores.data, by), [node?.name, scores.data, by]);
  const data = scores.data?.[by];
  const first = useMemo(() => ordered(units, view.sort === "contribution" ? data?.contribution : view.sort === "index" ? undefined : data?.activation).slice(0, view.n), [units, data, view.sort, view.n]);
  const ready = first.filter((unit) => done.has(unit.query)).map((unit) => unit.query);
  const alike = useJson<{ selectivity: Record<string, number> }>(
    base && view.sort === "selectivity" && ready.length > 1 && ready.length === first.length ? address("likeness", { ...base, q: ready.join("|") }, "json") : null,
  );
  if (!model || !node) return null;
  if (scores.problem) return <Trouble problem={scores.problem} />;
  const selectivity = alike.data?.selectivity;
  const shown = selectivity ? [...first].sort((a, b) => (selectivity[b.query] ?? 0) - (selectivity[a.query] ?? 0)) : first;
  const value = (unit: Unit) => (view.sort === "selectivity" ? selectivity?.[unit.query] : view.sort === "contribution" ? data?.contribution?.[unit.index] : data?.activation[unit.index]);
  const most = Math.max(...shown.map((unit) => Math.abs(value(unit) ?? 0)), 1e-9);
  const tile = (unit: Unit, pinned: boolean, place = 0) => (
    <Tile
      key={unit.query} unit={unit} pinned={pinned} asked={place < ready.length + TOGETHER} score={value(unit)} most={most} now={unit.query === view.q}
      ended={() => note(unit.query)}
    />
  );
  const pins = view.p.map((query) => ({ query, label: query, index: -1 }));
  const sorts: View["sort"][] = ["activation", "contribution", "selectivity", "index"];
  return (
    <div class="grid-tab">
      <div class="toolbar">
        <fieldset>
          <legend>units</legend>
          {(["channels", "cells"] as const).map((kind) => (
            <button key={kind} type="button" disabled={kind === "cells" && !!cellsOnly} aria-pressed={by === kind} onClick={() => set({ by: kind, n: MORE })}>{kind}</button>
          ))}
        </fieldset>
        <label>
          sort by{" "}
          <select value={view.sort} onChange={(event) => set({ sort: event.currentTarget.value as View["sort"] })}>
            {sorts.map((name) => <option key={name} value={name} disabled={name === "contribution" && !!data && !data.contribution}>{name === "contribution" ? "decision contribution" : name}</option>)}
          </select>
        </label>
        <span class="count" role="status">{ready.length} of {shown.length} shown, {units.length} in all</span>
      </div>
      {pins.length > 0 && (
        <>
          <h3 class="pins">Pinned</h3>
          <ul class="tiles" aria-label="Pinned">{pins.map((unit) => tile(unit, true))}</ul>
        </>
      )}
      <ul class="tiles" aria-label={`${by} of ${node.name}`}>{shown.map((unit, place) => tile(unit, false, place))}</ul>
      {shown.length < units.length && (
        <button type="button" class="more" onClick={() => set({ n: Math.min(units.length, view.n + MORE) }, true)}>{MORE} more</button>
      )}
      {view.sort === "selectivity" && <p class="note">Selectivity: one minus the mean absolute cosine with the other answers shown here. Known when all of them are.</p>}
      {view.sort === "contribution" && <p class="note">Contribution: activation times gradient of the margin between the first two classes, to first order.</p>}
    </div>
  );
}

function listed(node: string, scores: Scores | undefined, by: "channels" | "cells"): Unit[] {
  if (!scores || scores.node !== node) return [];
  if (by === "channels") return scores.channels.activation.map((_, index) => ({ query: `${node}:${index}`, label: `:${index}`, index }));
  return scores.cells.at.map((at, index) => ({ query: `${node}@${at.join(",")}`, label: `@${at.join(",")}`, index }));
}

function ordered(units: Unit[], score: number[] | undefined): Unit[] {
  return score ? [...units].sort((a, b) => score[b.index] - score[a.index] || a.index - b.index) : units;
}

function Tile(props: { unit: Unit; pinned: boolean; asked: boolean; score: number | undefined; most: number; now: boolean; ended(): void }) {
  const { view, model, set } = useSession();
  const { unit } = props;
  const kinds = model?.picture ? ["preview", "final"] : ["final"];
  const stages = useLive(props.asked ? { lens: view.m, input: view.x, query: unit.query, stages: kinds, background: true } : null);
  const { state, facts, error } = stages.final ?? {};
  const best = state === "done" ? "final" : stages.preview?.state === "done" ? "preview" : "";
  const path = best && model?.picture ? address("inverse", { ...view, q: unit.query }, "png", { stage: best, ...(view.w === "signed" ? { view: "signed" } : {}) }) : null;
  const { shown } = useArrived(path, { of: `${view.m} ${view.x}`, stage: best });
  const current = shown?.about.of === `${view.m} ${view.x}` ? shown : null;
  const stage = model?.picture ? current?.about.stage ?? "none" : best;
  useEffect(() => {
    if (state === "done") props.ended();
  }, [state, view.m, view.x]);
  const profile = facts?.profile;
  const toggle = () => set({ p: props.pinned || view.p.includes(unit.query) ? view.p.filter((pin) => pin !== unit.query) : [...view.p, unit.query] }, true);
  return (
    <li class={props.now ? "tile now" : "tile"}>
      <button type="button" class="pick" aria-current={props.now ? "true" : undefined} aria-label={`Look at ${unit.query}`} title={unit.query} data-query={unit.query} data-stage={stage} onClick={() => set({ q: unit.query })}>
        {model?.picture && (current ? <img class={stage} src={current.url} alt="" data-path={current.path} draggable={false} /> : <div class="blank" />)}
        {model?.text && <Spark values={profile} />}
        {stage === "preview" && <span class="badge" title="Plain gradient, not the answer">preview</span>}
        {error && <span class="wrong" title={error.got}>!</span>}
      </button>
      <span class="under">
        <code>{unit.label}</code>
        {props.score !== undefined && (
          <span class={props.score < 0 ? "score minus" : "score"} title={props.score.toPrecision(3)}>
            <span style={{ width: `${(Math.abs(props.score) / props.most) * 100}%` }} />
          </span>
        )}
        <button type="button" class="pin" aria-pressed={view.p.includes(unit.query)} aria-label={`Pin ${unit.query}`} onClick={toggle}>{view.p.includes(unit.query) ? "●" : "○"}</button>
      </span>
    </li>
  );
}

/** Energy over the source tokens. */
export function Spark({ values }: { values: number[] | undefined }) {
  if (!values) return <span class="blank" />;
  const most = Math.max(...values, 1e-9);
  return (
    <svg class="spark" viewBox={`0 0 ${values.length} 1`} preserveAspectRatio="none" aria-hidden="true">
      {values.map((value, at) => <rect key={at} x={at + 0.05} y={1 - value / most} width={0.9} height={value / most} />)}
    </svg>
  );
}

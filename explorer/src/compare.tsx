/** A beside B: inputs, layers, estimators; one scale for both, and their difference. */
import { useEffect, useState } from "preact/hooks";
import { Picture, Trouble, useJson, useLive, useSession } from "./session";
import { address } from "./state";
import type { Facts } from "./types";

const STAGES: [string, string][] = [["final", "answer"], ["first", "gradient under the prior"], ["raw", "plain gradient"]];

interface Between extends Facts {
  cosine_between: number;
  lengths: [number, number] | null;
  scaled: boolean;
}

export function Compare() {
  const { view, models, inputs, model, set } = useSession();
  const b = { m: view.bm || view.m, x: view.bx || view.x, q: view.bq || view.q, s: view.bs };
  const other = models.find((known) => known.id === b.m);
  const [text, setText] = useState(b.q);
  useEffect(() => setText(b.q), [b.q]);
  const first = useLive({ lens: view.m, input: view.x, query: view.q, stages: ["final"] });
  const second = useLive({ lens: b.m, input: b.x, query: b.q, stages: [b.s] });
  const ready = first.final?.state === "done" && second[b.s]?.state === "done";
  const named = `${b.m}~${b.x}~${b.s}~${b.q}`;
  const self = `${view.m}~${view.x}~final~${view.q}`;
  const signed: Record<string, string> = view.w === "signed" ? { view: "signed" } : {};
  const between = useJson<Between>(ready ? address("inverse", view, "json", { with: named }) : null);
  const name = (sha: string) => inputs.find((entry) => entry.sha === sha)?.name ?? "input";
  const trouble = second[b.s]?.error ?? between.problem;
  const fits = inputs.filter((entry) => entry.lenses.includes(b.m));
  return (
    <div class="compare">
      <div class="toolbar">
        <b>B</b>
        <label>estimator{" "}
          <select value={b.m} onChange={(event) => set({ bm: event.currentTarget.value })}>
            {models.map((known) => <option key={known.id} value={known.id}>{known.title}</option>)}
          </select>
        </label>
        <label>stage{" "}
          <select value={b.s} onChange={(event) => set({ bs: event.currentTarget.value })}>
            {STAGES.map(([key, what]) => <option key={key} value={key}>{what}</option>)}
          </select>
        </label>
        <label>input{" "}
          <select value={b.x} onChange={(event) => set({ bx: event.currentTarget.value })}>
            {fits.map((entry) => <option key={entry.sha} value={entry.sha}>{entry.name}</option>)}
          </select>
        </label>
        <form onSubmit={(event) => { event.preventDefault(); set({ bq: text.trim() }); }}>
          <label>query <input value={text} spellcheck={false} onInput={(event) => setText(event.currentTarget.value)} /></label>
        </form>
      </div>
      {trouble && <Trouble problem={trouble} />}
      {model?.picture && other?.picture && !trouble && (
        <div class="three">
          <figure>
            <Picture path={ready ? address("inverse", view, "png", { with: named, ...signed }) : null} alt={`A: ${view.q}`} className="side-a" />
            <figcaption><b>A</b> <span>{name(view.x)} · {view.q}</span></figcaption>
          </figure>
          <figure>
            <Picture path={ready ? address("inverse", b, "png", { stage: b.s, with: self, ...signed }) : null} alt={`B: ${b.q}`} className="side-b" />
            <figcaption><b>B</b> <span>{name(b.x)} · {b.q} · {STAGES.find(([key]) => key === b.s)?.[1]}</span></figcaption>
          </figure>
          <figure>
            <Picture path={ready ? address("inverse", view, "png", { minus: named }) : null} alt="A minus B" className="minus" />
            <figcaption><b>A − B</b> <span>signed: red where A is brighter</span></figcaption>
          </figure>
        </div>
      )}
      {between.data && (
        <p class="note" role="status" data-cosine={between.data.cosine_between}>
          Cosine of A with B {between.data.cosine_between.toFixed(3)}.{" "}
          {between.data.scaled ? "They have different units: both are brought to length one." : `Lengths ${between.data.lengths?.map((length) => length.toPrecision(3)).join(" and ")}; one colour scale.`}
        </p>
      )}
    </div>
  );
}

import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Compare } from "./compare";
import { Decide } from "./decide";
import { Export } from "./export";
import { Grid } from "./grid";
import { Ladder } from "./ladder";
import { Open } from "./open";
import { Panels } from "./panels";
import { problemOf, SessionContext, Trouble, useLive, useSession as useSessionValue, type Session } from "./session";
import { format, moved, nodeOf, parse, shape, stepped, type View } from "./state";
import { json, type Transport } from "./transport";
import { Strip, Tokens } from "./tokens";
import { Trust } from "./trust";
import type { Entry, Model, Problem } from "./types";

const TABS = { grid: "Grid", compare: "Compare", decide: "Decide", tokens: "Tokens" } as const;

export function App({ transport, start }: { transport: Transport; start: string }) {
  const [models, setModels] = useState<Model[]>([]);
  const [inputs, setInputs] = useState<Entry[]>([]);
  const [view, setView] = useState<View>(() => parse(start));
  const [problem, setProblem] = useState<Problem | null>(null);
  const [said, say] = useState("");
  const refresh = useCallback(async () => {
    const entries = await json<Entry[]>(transport, "/api/inputs");
    setInputs(entries);
    return entries;
  }, [transport]);
  useEffect(() => {
    Promise.all([json<Model[]>(transport, "/api/models").then(setModels), refresh()]).catch((error: unknown) => setProblem(problemOf(error)));
  }, [transport]);
  useEffect(() => {
    if (!transport.page) return undefined;
    const changed = () => setView(parse(location.hash));
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, [transport]);
  const set = useCallback((change: Partial<View>, replace = false) => {
    setView((now) => {
      const next = { ...now, ...change };
      if (transport.page) history[replace ? "replaceState" : "pushState"](null, "", `#${format(next)}`);
      return next;
    });
  }, [transport]);
  const model = models.find((known) => known.id === view.m);
  useEffect(() => {
    if (!models.length) return;
    const chosen = models.find((known) => known.id === view.m) ?? (view.m ? undefined : models[0]);
    if (!chosen) return;
    const fill: Partial<View> = {};
    if (chosen.id !== view.m) fill.m = chosen.id;
    if (!view.x) fill.x = inputs.find((entry) => entry.lenses.includes(chosen.id))?.sha ?? "";
    if (!view.q) fill.q = opening(chosen);
    if (fill.x === "") delete fill.x;
    if (Object.keys(fill).length) set(fill, true);
  }, [models, inputs, view.m, view.x, view.q]);
  const session = useMemo<Session>(() => ({ transport, models, inputs, view, model, set, refresh, say }), [transport, models, inputs, view, model, set, refresh]);
  if (problem) return <main class="alone"><h1>sgfi explorer</h1><Trouble problem={problem} /></main>;
  return (
    <SessionContext.Provider value={session}>
      <Workbench said={said} />
    </SessionContext.Provider>
  );
}

/** Where a new model is first looked at: the whole of a tensor a third of the way down. */
function opening(model: Model): string {
  const node = model.nodes[Math.floor(model.nodes.length / 3)] ?? model.nodes[model.nodes.length - 1];
  return model.text ? `${node.name}@1` : node.name;
}

function Workbench({ said }: { said: string }) {
  const session = useSessionValue();
  const { view, model, set, inputs } = session;
  const [open, setOpen] = useState(false);
  const [help, setHelp] = useState(false);
  const [taking, setTaking] = useState(false);
  const queryBox = useRef<HTMLInputElement>(null);
  const known = inputs.some((entry) => entry.sha === view.x);
  const ask = model && known && view.q ? { lens: view.m, input: view.x, query: view.q, stages: ["preview", "final", "trust", ...(view.s ? ["share"] : [])] } : null;
  const stages = useLive(ask);
  useKeys(session, { open: () => setOpen((now) => !now), help: () => setHelp((now) => !now), take: () => setTaking((now) => !now), query: () => { queryBox.current?.focus(); queryBox.current?.select(); } });
  const node = nodeOf(model, view.q);
  return (
    <div class="workbench">
      <a class="skip" href="#result" onClick={(event) => { event.preventDefault(); document.getElementById("result")?.focus(); }}>Skip to the answer</a>
      <header>
        <h1>sgfi</h1>
        <button type="button" class="where" aria-expanded={open} onClick={() => setOpen(!open)}>
          <b>{model?.title ?? "model"}</b> <span>{inputs.find((entry) => entry.sha === view.x)?.name ?? "input"}</span>
        </button>
        <QueryBox box={queryBox} />
        <div class="switches">
          <button type="button" aria-pressed={view.s} title="Fade what the feature does not determine (s)" onClick={() => set({ s: !view.s })}>share</button>
          <button type="button" aria-pressed={view.w === "signed"} title="Signed colours: red above zero, blue below (w)" onClick={() => set({ w: view.w === "signed" ? "natural" : "signed" })}>signed</button>
          <CopyLink />
          <button type="button" aria-expanded={taking} title="Export what is shown (e)" onClick={() => setTaking(!taking)}>export</button>
          <button type="button" aria-expanded={help} title="Keyboard (?)" onClick={() => setHelp(!help)}>?</button>
        </div>
      </header>
      {help && <Help />}
      {taking && <Export />}
      {open && <Open close={() => setOpen(false)} />}
      {view.m && session.models.length > 0 && !model && (
        <Trouble problem={{ expected: "an open model", got: view.m, todo: "This link is for a model that is not open here: name it when you start sgfi explore." }} />
      )}
      {view.x && inputs.length > 0 && !known && (
        <Trouble problem={{ expected: "a known input", got: view.x.slice(0, 12), todo: "This link is for an input that is not on this computer. Add it, or choose another." }} />
      )}
      <div class="columns">
        <Ladder />
        <main id="result" tabIndex={-1}>
          <h2 class="query"><code>{view.q || "…"}</code> {node && <small>of {shape(node)}</small>}</h2>
          {model?.picture && known && <Panels stages={stages} />}
          {model?.text && known && <Strip stages={stages} />}
          {known && <Tabs />}
        </main>
        <Trust stages={stages} />
      </div>
      <div class="said" role="status" aria-live="polite">{said}</div>
    </div>
  );
}


function Tabs() {
  const { view, set, model } = useSessionValue();
  const names: Exclude<View["v"], "">[] = model?.text ? ["tokens", "grid"] : ["grid", "compare", "decide"];
  const now = names.find((name) => name === view.v) ?? names[0];
  return (
    <section class="tabs">
      <div role="tablist" aria-label="Below the pictures">
        {names.map((name) => (
          <button key={name} type="button" role="tab" id={`tab-${name}`} aria-selected={now === name} aria-controls="tab-body" onClick={() => set({ v: name })}>{TABS[name]}</button>
        ))}
      </div>
      <div role="tabpanel" id="tab-body" aria-labelledby={`tab-${now}`}>
        {model && now === "grid" && <Grid />}
        {model && now === "compare" && <Compare />}
        {model && now === "decide" && <Decide />}
        {model && now === "tokens" && <Tokens />}
      </div>
    </section>
  );
}

function QueryBox({ box }: { box: { current: HTMLInputElement | null } }) {
  const { view, set } = useSessionValue();
  const [text, setText] = useState(view.q);
  useEffect(() => setText(view.q), [view.q]);
  return (
    <form class="querybox" onSubmit={(event) => { event.preventDefault(); set({ q: text.trim() }); box.current?.blur(); }}>
      <label><span class="hidden">Query</span>
        <input ref={box} value={text} spellcheck={false} autocomplete="off" placeholder="layer3.1.add:17@2,3" onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={(event) => { if (event.key === "Escape") { setText(view.q); event.currentTarget.blur(); } }} />
      </label>
      <button type="submit">Ask</button>
    </form>
  );
}

function CopyLink() {
  const { transport, say } = useSessionValue();
  if (!transport.page) return null;
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(location.href);
      say("Link copied");
    } catch {
      say("Copy the address of this page");
    }
  };
  return <button type="button" onClick={() => void copy()} title="Copy the link to exactly this view">link</button>;
}

function Help() {
  const keys: [string, string][] = [
    ["↑ ↓", "shallower, deeper tensor"], ["← →", "previous, next channel (or cell)"], ["[ ]", "previous, next input"],
    ["/", "write a query"], ["o", "open models and inputs"], ["s", "fade by share"], ["w", "signed colours"], ["g c d", "grid, compare, decide"], ["e", "export"], ["?", "this list"],
  ];
  return (
    <section class="help" aria-label="Keyboard">
      <dl>{keys.map(([key, what]) => <div key={key}><dt><kbd>{key}</kbd></dt><dd>{what}</dd></div>)}</dl>
      <p>A query is <code>tensor[:channels][@cells]</code>, such as <code>layer3.1.add:17@2,3</code>. Click a cell of the inverse to ask about it alone.</p>
    </section>
  );
}

function useKeys(session: Session, act: { open(): void; help(): void; take(): void; query(): void }) {
  const latest = useRef({ session, act });
  latest.current = { session, act };
  useEffect(() => {
    if (!session.transport.page) return undefined;
    const pressed = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) return;
      const { session: { view, model, set, inputs }, act: actions } = latest.current;
      const node = nodeOf(model, view.q);
      const step = { ArrowUp: -1, ArrowDown: 1, ArrowLeft: -1, ArrowRight: 1, "[": -1, "]": 1 }[event.key] ?? 0;
      if (model && node && (event.key === "ArrowUp" || event.key === "ArrowDown")) {
        const to = model.nodes[model.nodes.indexOf(node) + step];
        if (to) set({ q: moved(view.q, node, to) });
      } else if (node && (event.key === "ArrowLeft" || event.key === "ArrowRight")) set({ q: stepped(view.q, node, step) });
      else if (event.key === "[" || event.key === "]") {
        const fitting = inputs.filter((entry) => model && entry.lenses.includes(model.id));
        const at = fitting.findIndex((entry) => entry.sha === view.x);
        if (fitting.length) set({ x: fitting[(at + step + fitting.length) % fitting.length].sha });
      } else if (event.key === "/") actions.query();
      else if (event.key === "o") actions.open();
      else if (event.key === "s") set({ s: !view.s });
      else if (event.key === "w") set({ w: view.w === "signed" ? "natural" : "signed" });
      else if (event.key === "?") actions.help();
      else if (event.key === "e") actions.take();
      else if (!model?.text && "gcd".includes(event.key)) set({ v: ({ g: "grid", c: "compare", d: "decide" } as const)[event.key as "g" | "c" | "d"] });
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [session.transport]);
}

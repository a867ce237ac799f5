/** Input and inverse side by side; hovering says what reads what. */
import { useState } from "preact/hooks";
import { Picture, Trouble, useArrived, useJson, useSession, type Arrived, type Stages } from "./session";
import { address, join, nodeOf, split } from "./state";
import type { Facts, Problem, Reads } from "./types";

/** Along each side of a picture, as the server cuts it. */
const PLACES = 8;

const LABELS: Record<string, string> = {
  preview: "preview: plain gradient, not the answer",
  final: "natural inverse",
  share: "natural inverse, faded where it is not determined",
};

interface Answer {
  /** Model, input and query as they were asked for. */
  asked: string;
  query: string;
  stage: string;
  label: string;
  facts: Facts | undefined;
}

/** What the frame shows: the best answer whose picture has arrived. Everything said under it is about this one, which is another
 * question's until the first picture of the present one is here. */
function useAnswer(stages: Stages): { shown: Arrived<Answer> | null; current: boolean; problem?: Problem } {
  const { view, model } = useSession();
  const stage = ["share", "final", "preview"].find((name) => stages[name]?.state === "done") ?? "";
  const facts = stages[stage]?.facts;
  const path = stage ? address("inverse", { ...view, q: facts?.query ?? view.q }, "png", { stage, ...(view.w === "signed" ? { view: "signed" } : {}) }) : null;
  const asked = `${view.m} ${view.x} ${view.q}`;
  const label = model?.kind === "maps" && stage === "final" ? "calibrated maps" : LABELS[stage];
  const { shown, problem } = useArrived(path, { asked, query: view.q, stage, label, facts });
  return { shown, current: shown?.about.asked === asked, problem };
}

export function Panels({ stages }: { stages: Stages }) {
  const { view, model, set, inputs } = useSession();
  const node = nodeOf(model, view.q);
  const [wanted, setWanted] = useState(false);
  const [place, setPlace] = useState<number | null>(null);
  const [cell, setCell] = useState<number | null>(null);
  const spatial = !!model?.picture && node?.coords.length === 2;
  const reads = useJson<Reads>(wanted && spatial && node ? address("reads", { ...view, q: node.name }, "json") : null);
  const { shown, current, problem } = useAnswer(stages);
  if (!model) return null;
  const trouble = Object.values(stages).find((stage) => stage.state === "failed" && stage.error)?.error ?? problem;
  const stage = current && shown ? shown.about.stage : "none";
  const table = reads.data;
  const overInput = table && cell !== null ? table.share.map((row) => row[cell]) : null;
  const overCells = table && place !== null ? table.share[place] : null;
  const name = inputs.find((entry) => entry.sha === view.x)?.name ?? "input";
  const queried = split(view.q).coords.split(";").filter(Boolean);
  return (
    <section class="panels" aria-label="Input and inverse">
      <figure>
        <div class="frame" onPointerEnter={() => setWanted(true)}>
          <Picture path={view.x ? `/input/${view.m}/${view.x}.png` : null} alt={`${name} as the model sees it`} />
          {spatial && (
            <Cells
              rows={Math.min(PLACES, model.input[1])} columns={Math.min(PLACES, model.input[2])} weights={overInput}
              onHover={setPlace} label={(at) => `place ${at.join(", ")}`}
            />
          )}
        </div>
        <figcaption>
          <b>{name}</b> <span>{hint(wanted && spatial, !!table, overInput ? "what the cell reads" : "hover: which cells read it")}</span>
        </figcaption>
      </figure>
      <figure>
        <div class="frame" onPointerEnter={() => setWanted(true)}>
          {shown
            ? <img class={`answer ${shown.about.stage} ${current ? "" : "stale"}`} src={shown.url} alt={`${shown.about.label} of ${shown.about.query}`} data-path={shown.path} draggable={false} />
            : <div class="blank answer" role="img" aria-label={`${view.q}, on its way`} />}
          {spatial && node && (
            <Cells
              rows={node.coords[0]} columns={node.coords[1]} weights={overCells} marked={queried}
              onHover={setCell} label={(at) => `cell ${at.join(", ")}`}
              onPick={(at) => set({ q: join({ ...split(view.q), node: node.name, coords: at.join(",") }) })}
            />
          )}
          {(stage === "none" || stage === "preview") && !trouble && <Progress stages={stages} />}
        </div>
        <figcaption data-stage={stage} data-query={view.q}>
          {current && shown ? <Caption answer={shown.about} /> : <><b>{trouble ? "no answer" : "on its way"}</b> <span>{shown && <>still shown: <code>{shown.about.query}</code></>}</span></>}
        </figcaption>
      </figure>
      {trouble && <Trouble problem={trouble} />}
    </section>
  );
}

function Caption({ answer: { label, stage, facts } }: { answer: Answer }) {
  return (
    <>
      <b>{label}</b>{" "}
      <span>
        {facts?.gain !== undefined && stage !== "preview" && facts.gain > 1.05 && `gain ${facts.gain.toFixed(1)} · `}
        {typeof facts?.share === "number" && `share up to ${facts.share.toFixed(2)} · `}
        {facts && `${facts.seconds.toFixed(2)} s`}
      </span>
    </>
  );
}

function hint(wanted: boolean, ready: boolean, text: string): string {
  return wanted ? (ready ? text : "working out who reads what …") : "";
}

function Progress({ stages }: { stages: Stages }) {
  const stage = stages.final ?? stages.preview;
  const text = !stage ? "asking …" : stage.state === "queued" ? "waiting …" : stage.state === "working" ? `solving, step ${stage.steps}` : "";
  return <div class="progress" role="status">{text}</div>;
}

/** A grid over a picture: cells can be hovered, picked, and shaded by weight. */
function Cells(props: {
  rows: number; columns: number; weights: number[] | null; marked?: string[];
  onHover(at: number | null): void; onPick?(at: number[]): void; label(at: number[]): string;
}) {
  const { rows, columns } = props;
  if (!rows || !columns || rows * columns > 4096) return null;
  const most = props.weights ? Math.max(...props.weights, 1e-9) : 1;
  const where = (event: PointerEvent | MouseEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    const row = Math.min(rows - 1, Math.max(0, Math.floor(((event.clientY - box.top) / box.height) * rows)));
    const column = Math.min(columns - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * columns)));
    return [row, column];
  };
  return (
    <svg
      class={`cells ${props.onPick ? "pick" : ""}`} viewBox={`0 0 ${columns} ${rows}`} preserveAspectRatio="none" aria-hidden="true"
      onPointerMove={(event) => { const [row, column] = where(event); props.onHover(row * columns + column); }}
      onPointerLeave={() => props.onHover(null)}
      onClick={(event) => props.onPick?.(where(event))}
    >
      {props.weights?.map((weight, at) => {
        const opacity = Math.sqrt(weight / most);
        return <rect key={at} class="shade" x={at % columns} y={Math.floor(at / columns)} width={1} height={1} fill-opacity={(1 - opacity) * 0.82} />;
      })}
      {props.marked?.map((text) => {
        const [row, column] = text.split(",").map(Number);
        return <rect key={text} class="mark" x={column} y={row} width={1} height={1} />;
      })}
    </svg>
  );
}

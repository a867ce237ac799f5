/** Input and inverse side by side; hovering says what reads what. */
import { useState } from "preact/hooks";
import { Picture, Trouble, useJson, useSession, type Stages } from "./session";
import { address, join, nodeOf, split } from "./state";
import type { Reads } from "./types";

/** Along each side of a picture, as the server cuts it. */
const PLACES = 8;

const LABELS: Record<string, string> = {
  preview: "preview: plain gradient, not the answer",
  final: "natural inverse",
  share: "natural inverse, faded where it is not determined",
};

export function Panels({ stages }: { stages: Stages }) {
  const { view, model, set, inputs } = useSession();
  const node = nodeOf(model, view.q);
  const [wanted, setWanted] = useState(false);
  const [place, setPlace] = useState<number | null>(null);
  const [cell, setCell] = useState<number | null>(null);
  const spatial = !!model?.picture && node?.coords.length === 2;
  const reads = useJson<Reads>(wanted && spatial && node ? address("reads", { ...view, q: node.name }, "json") : null);
  if (!model) return null;
  const best = ["share", "final", "preview"].find((stage) => stages[stage]?.state === "done");
  const failed = Object.values(stages).find((stage) => stage.state === "failed" && stage.error);
  const facts = best ? stages[best].facts : undefined;
  const params: Record<string, string> = { stage: best ?? "final" };
  if (view.w === "signed") params.view = "signed";
  const query = facts?.query ?? view.q;
  const path = best ? address("inverse", { ...view, q: query }, "png", params) : null;
  const table = reads.data;
  const overInput = table && cell !== null ? table.share.map((row) => row[cell]) : null;
  const overCells = table && place !== null ? table.share[place] : null;
  const name = inputs.find((entry) => entry.sha === view.x)?.name ?? "input";
  const label = model.kind === "maps" && best === "final" ? "calibrated maps" : best ? LABELS[best] : "on its way";
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
          <Picture path={path} alt={`${label} of ${view.q}`} className={`answer ${best ?? ""}`} />
          {spatial && node && (
            <Cells
              rows={node.coords[0]} columns={node.coords[1]} weights={overCells} marked={queried}
              onHover={setCell} label={(at) => `cell ${at.join(", ")}`}
              onPick={(at) => set({ q: join({ ...split(view.q), node: node.name, coords: at.join(",") }) })}
            />
          )}
          {(!best || best === "preview") && !failed && <Progress stages={stages} />}
        </div>
        <figcaption data-stage={best ?? "none"}>
          <b>{label}</b>{" "}
          <span>
            {facts?.gain !== undefined && best !== "preview" && facts.gain > 1.05 && `gain ${facts.gain.toFixed(1)} · `}
            {typeof facts?.share === "number" && `share up to ${facts.share.toFixed(2)} · `}
            {facts && `${facts.seconds.toFixed(2)} s`}
          </span>
        </figcaption>
      </figure>
      {failed?.error && <Trouble problem={failed.error} />}
    </section>
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

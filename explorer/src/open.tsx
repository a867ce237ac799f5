/** Models, inputs, and what is running. */
import { useState } from "preact/hooks";
import { Picture, problemOf, Trouble, useJson, useSession } from "./session";
import type { Problem } from "./types";

const LARGEST = 20 * 2 ** 20;

interface Health {
  waiting: number;
  counts: Record<string, number>;
  memory: number;
}

export function Open({ close }: { close(): void }) {
  const { models, inputs, view, model, set, refresh, transport, say } = useSession();
  const [problem, setProblem] = useState<Problem | null>(null);
  const [over, setOver] = useState(false);
  const [text, setText] = useState("");
  const health = useJson<Health>("/api/health").data;
  const add = async (file: Blob, name: string) => {
    setProblem(null);
    if (file.size > LARGEST) {
      setProblem({ expected: `at most ${LARGEST >> 20} MiB`, got: `${(file.size / 2 ** 20).toFixed(1)} MiB`, todo: "Choose a smaller file." });
      return;
    }
    try {
      const { sha } = await transport.upload(file, name);
      const entries = await refresh();
      const fits = entries.find((entry) => entry.sha === sha)?.lenses ?? [];
      set({ x: sha, ...(fits.includes(view.m) || !fits.length ? {} : { m: fits[0], q: "" }) });
      say(`${name} added`);
      close();
    } catch (error) {
      setProblem(problemOf(error));
    }
  };
  const fitting = inputs.filter((entry) => !model || entry.lenses.includes(model.id));
  return (
    <section class="open" aria-label="Open">
      <div>
        <h2>Models</h2>
        <ul class="models">
          {models.map((known) => (
            <li key={known.id}>
              <button type="button" aria-current={known.id === view.m ? "true" : undefined}
                onClick={() => { const x = inputs.find((entry) => entry.lenses.includes(known.id)); set({ m: known.id, q: "", x: fitting.some((entry) => entry.sha === view.x && entry.lenses.includes(known.id)) ? view.x : x?.sha ?? "" }); }}>
                <b>{known.title}</b>
                <span>{known.kind === "natural" ? "natural inverse, no calibration" : "calibrated maps"} · {known.nodes.length} tensors · {known.input.join(" × ")}</span>
              </button>
            </li>
          ))}
        </ul>
        <p class="note">More models or map folders: name them on the command line, <code>sgfi explore torchvision:resnet50 maps/mine photo.jpg</code>.</p>
        {health && <p class="note" role="status">{health.waiting ? `${health.waiting} questions at work` : "Nothing at work"} · {health.counts.done} answered, {health.counts.cancelled} cancelled</p>}
      </div>
      <div>
        <h2>Inputs</h2>
        <ul class="inputs">
          {fitting.map((entry) => (
            <li key={entry.sha}>
              <button type="button" aria-current={entry.sha === view.x ? "true" : undefined} onClick={() => { set({ x: entry.sha }); close(); }}>
                {entry.kind !== "text" && model?.picture && <Picture path={`/input/${model.id}/${entry.sha}.png`} alt="" />}
                <span>{entry.name}</span>
              </button>
            </li>
          ))}
        </ul>
        {model?.text ? (
          <form class="write" onSubmit={(event) => { event.preventDefault(); if (text.trim()) void add(new Blob([text], { type: "text/plain" }), text.slice(0, 80)); }}>
            <label>A text <textarea value={text} rows={2} onInput={(event) => setText(event.currentTarget.value)} /></label>
            <button type="submit">Add</button>
          </form>
        ) : (
          <label
            class={over ? "drop over" : "drop"}
            onDragOver={(event) => { event.preventDefault(); setOver(true); }} onDragLeave={() => setOver(false)}
            onDrop={(event) => { event.preventDefault(); setOver(false); const file = event.dataTransfer?.files[0]; if (file) void add(file, file.name); }}
          >
            <input type="file" accept="image/*" onChange={(event) => { const file = event.currentTarget.files?.[0]; if (file) void add(file, file.name); }} />
            <span>Drop a picture here, or choose one. It stays on this computer.</span>
          </label>
        )}
        {problem && <Trouble problem={problem} />}
      </div>
    </section>
  );
}

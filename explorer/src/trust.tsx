/** Always visible: what other targets would have given at the same operating point. */
import { Picture, useJson, useSession, type Stage, type Stages } from "./session";
import { address } from "./state";
import type { Quality } from "./types";

const VERDICTS: Record<string, [string, string]> = {
  follows: ["good", "The picture follows its target"],
  swapped: ["fair", "Another input's target gives nearly this picture"],
  untried: ["plain", "Unlike a random target's picture; no other input was tried"],
  alike: ["fair", "Follows its target, but its neighbours look alike"],
  "operating point": ["bad", "A picture of the operating point, not of the feature"],
  unclear: ["fair", "Cannot tell: random targets come too near the threshold"],
  silent: ["plain", "The feature registered nothing here: its answer is zero"],
  single: ["plain", "One number: a target can only scale its picture"],
};

export function Trust({ stages }: { stages: Stages }) {
  const { view, model, inputs } = useSession();
  const stage: Stage | undefined = stages.trust;
  const facts = stage?.state === "done" ? stage.facts : undefined;
  const [tone, title] = VERDICTS[facts?.verdict ?? ""] ?? ["wait", "Checking …"];
  const answer = stages.final?.facts;
  const other = inputs.find((entry) => entry.sha === facts?.other)?.name;
  const picture = (part: string) => (facts && model?.picture ? address("trust", { ...view, q: facts.query }, "png", { part }) : null);
  return (
    <aside class={`trust ${tone}`} aria-label="Trust">
      <h2>Trust</h2>
      <p class="verdict" role="status" data-verdict={facts?.verdict ?? ""}>
        {stage?.state === "failed" ? "The controls could not be worked out." : title}
      </p>
      {facts?.verdict === "operating point" && (
        <p class="plain">Random targets give pictures like this. It shows what the model computes around this input, whatever the feature says.</p>
      )}
      {facts?.verdict === "swapped" && (
        <p class="plain">It changes with a random target, but hardly with another input's: what is seen is mostly this input's operating point.</p>
      )}
      <dl>
        <Score name="random target" value={facts?.random} note={facts && facts.random === null ? "one number" : "near 0 is good"} ready={!!facts} />
        <Score name={other ? `${other}'s target` : "another input's target"} value={facts?.swapped} note={facts && facts.swapped === null ? "no other input" : "low is good"} ready={!!facts} />
        <Score name="neighbouring queries" value={facts?.neighbours} note={facts && facts.neighbours === null ? "none" : "low: selective"} ready={!!facts} />
        <div>
          <dt>zero target</dt>
          <dd>{facts ? (facts.zero === 0 ? "exactly zero" : `up to ${facts.zero?.toExponential(1)}`) : "…"}</dd>
        </div>
      </dl>
      {model?.picture && (
        <div class="controls">
          {facts?.random !== null && <figure><Picture path={picture("random")} alt="What a random target gives" /><figcaption>random target</figcaption></figure>}
          {facts?.swapped !== null && <figure><Picture path={picture("swapped")} alt="What another input's target gives" /><figcaption>{other ? `${other}'s target` : "swapped target"}</figcaption></figure>}
        </div>
      )}
      {facts?.sentence && <p class="sentence">{facts.sentence}</p>}
      <h3>This answer</h3>
      <dl class="small">
        <Fact name="cosine with the input" value={answer?.cosine?.toFixed(2)} />
        <Fact name="residual of the solve" value={answer?.residual?.toFixed(3)} />
        <Fact name="steps" value={answer?.steps !== undefined ? (answer.steps === 0 ? "exact" : String(answer.steps)) : undefined} />
        <Fact name="numbers asked for" value={facts?.numbers?.toLocaleString("en")} />
      </dl>
      {model?.kind === "maps" && <Maps id={model.id} />}
    </aside>
  );
}

/** Where along the path a map folder loses what, and what would help. */
function Maps({ id }: { id: string }) {
  const { data } = useJson<Quality>(`/quality/${id}.json`);
  if (!data) return null;
  const percent = (share: number | null | undefined) => (typeof share === "number" ? `${(100 * share).toFixed(1)} %` : "–");
  const last = data.nodes.find((node) => node.name === "input");
  const missed = last && (last.unseen.length ? last.unseen[last.unseen.length - 1] : last.seen);
  return (
    <section class="maps" aria-label="These maps">
      <h3>These maps</h3>
      {data.why && <p class="plain">{data.why}</p>}
      {last && <p class="plain" data-missed={missed ?? ""}>Miss {percent(missed)} of the input's energy on {last.unseen.length ? "samples they have not seen" : "the samples they were fitted to, after the first map"}.</p>}
      {data.nodes.length > 0 && (
        <details>
          <summary>Every node, and advice</summary>
          <table>
            <thead><tr><th scope="col">node</th><th scope="col">seen</th><th scope="col">unseen</th><th scope="col">lost</th></tr></thead>
            <tbody>
              {data.nodes.map((node) => (
                <tr key={node.name}><th scope="row"><code>{node.name}</code></th><td>{percent(node.seen)}</td><td>{percent(node.unseen[node.unseen.length - 1])}</td><td>{percent(node.lost)}</td></tr>
              ))}
            </tbody>
          </table>
          {(data.advice.length ? data.advice : ["Nothing stands out."]).map((line) => <p key={line} class="plain">{line}</p>)}
        </details>
      )}
    </section>
  );
}

function Score({ name, value, note, ready }: { name: string; value?: number | null; note: string; ready: boolean }) {
  const known = typeof value === "number";
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        <span class="bar" aria-hidden="true"><span style={{ width: `${known ? Math.min(1, Math.abs(value)) * 100 : 0}%` }} /></span>
        <b>{known ? value.toFixed(2) : ready ? "–" : "…"}</b> <small>{note}</small>
      </dd>
    </div>
  );
}

function Fact({ name, value }: { name: string; value: string | undefined }) {
  if (value === undefined) return null;
  return <div><dt>{name}</dt><dd>{value}</dd></div>;
}

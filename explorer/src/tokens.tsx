/** A text: the strip of source tokens an answer came from, and layer by position what each state is going to. */
import { Trouble, useJson, useSession, type Stages } from "./session";
import { address, nodeOf, split } from "./state";
import type { TokenRow } from "./types";

interface Words {
  name: string;
  tokens: string[] | null;
}

function useWords(): string[] | undefined {
  const { view, inputs } = useSession();
  const known = inputs.some((entry) => entry.sha === view.x);
  return useJson<Words>(known ? `/input/${view.m}/${view.x}.json` : null).data?.tokens ?? undefined;
}

const shown = (token: string) => token.replace(/\n/g, "↵").trim() || "␣";

/** Energy of the inverse over the source tokens. */
export function Strip({ stages }: { stages: Stages }) {
  const { view } = useSession();
  const words = useWords();
  const best = ["final", "preview"].find((stage) => stages[stage]?.state === "done");
  const profile = best ? stages[best].facts?.profile : undefined;
  const failed = Object.values(stages).find((stage) => stage.state === "failed" && stage.error);
  const asked = new Set(split(view.q).coords.split(";").filter(Boolean).map(Number));
  const most = profile ? Math.max(...profile, 1e-9) : 1;
  return (
    <section class="strip" aria-label="Source tokens" data-stage={best ?? "none"} data-query={view.q}>
      <ol>
        {words?.map((word, at) => (
          <li key={at} class={asked.has(at) ? "asked" : ""} title={profile ? `${(100 * profile[at]).toFixed(1)} % of the energy` : ""}>
            <span class="fill" style={{ opacity: profile ? 0.75 * (profile[at] / most) : 0 }} />
            <b>{shown(word)}</b><small>{profile ? `${(100 * profile[at]).toFixed(0)} %` : "…"}</small>
          </li>
        ))}
      </ol>
      <p class="note">{best === "preview" ? "Preview: plain gradient, not the answer." : "Where the inverse of the framed tokens' state lies: share of its energy, token by token. Neither attention nor probability."}</p>
      {failed?.error && <Trouble problem={failed.error} />}
    </section>
  );
}

export function Tokens() {
  const { view, model, set } = useSession();
  const words = useWords();
  const { data, problem } = useJson<{ rows: TokenRow[] }>(model ? address("tokens", { ...view, q: model.target }, "json") : null);
  const asked = nodeOf(model, view.q)?.name ?? split(view.q).node;
  const at = Number(split(view.q).coords.split(";")[0] || 0);
  if (problem) return <Trouble problem={problem} />;
  if (!data || !words) return <p class="note" role="status">Reading out every layer …</p>;
  const here = data.rows.find((row) => row.node === asked);
  return (
    <div class="tokens">
      <div class="scroll" tabIndex={0} role="region" aria-label="Layer by position">
        <table>
          <thead><tr><th scope="col">layer</th>{words.map((word, position) => <th key={position} scope="col">{shown(word)}</th>)}</tr></thead>
          <tbody>
            {[...data.rows].reverse().map((row) => (
              <tr key={row.node}>
                <th scope="row"><code>{row.node.replace(/^.*?(\d+)(\D*)$/, "$1$2")}</code></th>
                {words.map((_, position) => (
                  <td key={position}>
                    <button type="button" class={row.node === asked && position === at ? "now" : ""} aria-label={`${row.node} at ${position}, going to ${row.next[position][0]}`}
                      data-query={`${row.node}@${position}`} onClick={() => set({ q: `${row.node}@${position}` })}>
                      <span class="fill" style={{ opacity: 0.6 * row.odds[position][0] }} /><span>{shown(row.next[position][0])}</span>
                    </button>
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {here && (
        <section aria-label="Going to">
          <h3>Going to <small>{here.lens} at {here.node}, position {at}</small></h3>
          <ol>{here.next[at]?.map((word, rank) => <li key={rank}><b>{shown(word)}</b> <small>{(100 * here.odds[at][rank]).toFixed(1)} %</small></li>)}</ol>
          <p class="note">
            The residual state after this layer, {here.lens === "logit lens" ? "read out by the final norm and the unembedding as if the model ended here." : "carried to the end by the matrix of your Jacobian lens, then read out by the final norm and the unembedding."}
          </p>
        </section>
      )}
    </div>
  );
}

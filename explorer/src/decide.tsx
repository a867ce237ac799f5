/** Which channels a decision leans on: what they identify, and, independently, what zeroing them does. Never mixed. */
import { Picture, Trouble, useJson, useLive, useSession } from "./session";
import { address, nodeOf, split } from "./state";
import type { Decision, GroupRow } from "./types";

const KINDS: Record<GroupRow["kind"], string> = {
  positive: "for the decision", negative: "against it", matched: "control: as active", random: "control: random",
};

export function Decide() {
  const { view, model, set } = useSession();
  const node = nodeOf(model, view.q);
  const { data, problem } = useJson<{ decision: Decision; rows: GroupRow[] }>(node ? address("decide", { ...view, q: node.name }, "json") : null);
  if (problem) return <Trouble problem={problem} />;
  if (!data || !node) return <p class="note" role="status">Ranking the channels of {node?.name} …</p>;
  const most = Math.max(...data.rows.map((row) => Math.abs(row.drop)), Math.abs(data.decision.margin));
  const sizes = [...new Set(data.rows.map((row) => row.size))];
  const pictured = data.rows.filter((row) => row.kind === "positive" || row.kind === "negative");
  return (
    <div class="decide">
      <p class="note">
        Class {data.decision.top} ({(100 * data.decision.probability).toFixed(0)} %) before class {data.decision.second}; margin {data.decision.margin.toFixed(2)} in logits.
      </p>
      <div class="branches">
        <section aria-label="Inversion">
          <h3>What the groups identify <small>inversion; never fed back to the model</small></h3>
          <ul class="tiles">
            {pictured.map((row) => (
              <li key={row.kind + row.size} class="tile">
                <button type="button" class="pick" aria-label={`Look at ${row.query}`} data-query={row.query} onClick={() => set({ q: row.query })}>
                  <Thumb query={row.query} />
                </button>
                <span class="under wrap">{row.size} {KINDS[row.kind]}<br /><code>{split(row.query).units}</code></span>
              </li>
            ))}
          </ul>
        </section>
        <section aria-label="Intervention">
          <h3>What zeroing them does <small>the original model, no inverse involved</small></h3>
          <table>
            <thead><tr><th scope="col">channels</th>{sizes.map((size) => <th key={size} scope="col">{size}</th>)}</tr></thead>
            <tbody>
              {(Object.keys(KINDS) as GroupRow["kind"][]).map((kind) => (
                <tr key={kind}>
                  <th scope="row">{KINDS[kind]}</th>
                  {sizes.map((size) => {
                    const row = data.rows.find((entry) => entry.kind === kind && entry.size === size);
                    return (
                      <td key={size}>
                        {row && <><b>{row.drop.toFixed(2)}</b>{row.flipped > 0 && <small> {row.groups > 1 ? `${Math.round(100 * row.flipped)} % flip` : "flips"}</small>}
                          <span class={row.drop < 0 ? "score minus" : "score"}><span style={{ width: `${(100 * Math.abs(row.drop)) / most}%` }} /></span></>}
                      </td>
                    );
                  })}
                </tr>
              ))}
            </tbody>
          </table>
          <p class="note">Drop of the margin when a group of that size is set to zero; negative where the margin grew. Random: mean of {data.rows.find((row) => row.kind === "random")?.groups} groups.</p>
        </section>
      </div>
    </div>
  );
}

function Thumb({ query }: { query: string }) {
  const { view, model } = useSession();
  const { final } = useLive({ lens: view.m, input: view.x, query, stages: ["final"], background: true });
  if (!model?.picture) return null;
  return <Picture path={final?.state === "done" ? address("inverse", { ...view, q: query }, "png") : null} alt="" />;
}

/** The boundary DAG, shallow to deep. */
import { useEffect, useRef } from "preact/hooks";
import { useSession } from "./session";
import { moved, nodeOf, shape } from "./state";

const ROW = 30;

export function Ladder() {
  const { model, view, set } = useSession();
  const here = useRef<HTMLButtonElement>(null);
  const node = nodeOf(model, view.q);
  useEffect(() => {
    here.current?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [node?.name]);
  if (!model) return null;
  const order = ["input", ...model.nodes.map((known) => known.name)];
  const skips = model.edges
    .map(([start, end]) => [order.indexOf(start), order.indexOf(end)] as const)
    .filter(([start, end]) => start >= 0 && end - start > 1);
  return (
    <nav class="ladder" aria-label="Tensors, shallow to deep">
      <div class="rungs">
        <svg class="dag" width="22" height={order.length * ROW} aria-hidden="true">
          <path d={`M15 ${ROW / 2}V${(order.length - 0.5) * ROW}`} />
          {skips.map(([start, end]) => (
            <path key={`${start}-${end}`} class="skip" d={`M15 ${(start + 0.5) * ROW}C2 ${(start + 0.5) * ROW} 2 ${(end + 0.5) * ROW} 15 ${(end + 0.5) * ROW}`} />
          ))}
          {order.map((name, at) => (
            <circle key={name} class={name === node?.name ? "now" : ""} cx="15" cy={(at + 0.5) * ROW} r={name === node?.name ? 5 : 3} />
          ))}
        </svg>
        <ol>
          <li class="source"><span>input</span><small>{model.input.join(" × ")}</small></li>
          {model.nodes.map((known) => (
            <li key={known.name}>
              <button
                type="button" ref={known.name === node?.name ? here : undefined} aria-current={known.name === node?.name ? "true" : undefined}
                title={`${known.name} (${known.op})`} onClick={() => set({ q: moved(view.q, node, known) })}
              >
                <span>{known.name}</span><small>{shape(known)}</small>
              </button>
            </li>
          ))}
        </ol>
      </div>
    </nav>
  );
}

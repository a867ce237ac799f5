"""Is the committed bundle what the source builds?

``python explorer/bundle.py`` builds it with npm and records the digests of source and bundle; ``--check`` compares the
digests, which needs no Node; ``--rebuild`` builds once more into a temporary folder and compares byte by byte.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
STATIC = HERE.parent / "src" / "sgfi" / "explorer" / "static"
RECORD = STATIC / "source.json"
SOURCES = ("package.json", "package-lock.json", "tsconfig.json", "vite.config.js")


def digests(files: list[Path], root: Path) -> dict[str, str]:
    return {str(file.relative_to(root)): hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(files)}


def sources() -> dict[str, str]:
    files = [HERE / name for name in SOURCES]
    files += [file for name in ("src", "public") for file in (HERE / name).rglob("*") if file.is_file()]
    return digests(files, HERE)


def bundle(folder: Path = STATIC) -> dict[str, str]:
    return digests([file for file in folder.rglob("*") if file.is_file() and file.name != RECORD.name], folder)


def differences() -> list[str]:
    """Files that changed after the bundle was built."""
    recorded = json.loads(RECORD.read_text())
    changed = []
    for kind, now in (("source", sources()), ("bundle", bundle())):
        then = recorded[kind]
        changed += [f"{kind}: {name}" for name in sorted({*now, *then}) if now.get(name) != then.get(name)]
    return changed


def build(folder: Path) -> None:
    subprocess.run(["npm", "run", "build", "--silent", "--", "--outDir", str(folder)], cwd=HERE, check=True)


def main(arguments: list[str]) -> int:
    if "--check" in arguments or "--rebuild" in arguments:
        changed = differences()
        if "--rebuild" in arguments and not changed:
            with tempfile.TemporaryDirectory() as temporary:
                build(Path(temporary))
                made, kept = bundle(Path(temporary)), bundle()
                changed = [f"rebuilt: {name}" for name in sorted({*made, *kept}) if made.get(name) != kept.get(name)]
        for name in changed:
            print(name)
        print("the bundle is not what the source builds: run python explorer/bundle.py" if changed else "as built")
        return bool(changed)
    build(STATIC)
    RECORD.write_text(json.dumps({"source": sources(), "bundle": bundle()}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

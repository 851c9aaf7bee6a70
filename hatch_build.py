"""Makes the package's description: README.md with links to the repository, at the tag of this version."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class Description(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        files = f"{metadata['urls']['Repository']}/blob/v{metadata['version']}/"
        readme = Path(self.root, "README.md").read_text(encoding="utf-8")
        absolute = re.sub(r"\]\((?![a-z]+:|#)", f"]({files}", readme)
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute}

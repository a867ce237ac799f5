"""Where a family can be fetched from. All of them have one layout: the files of a map folder, side by side.

Nothing that comes from a source is believed: a file is read up to the size that is allowed for it, and whoever asked
compares it with the manifest's checksum.
"""

from __future__ import annotations

import http.client
import os
import re
import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from sgfi.errors import StoreError, first_line
from sgfi.optional import need
from sgfi.storage.files import MANIFEST

TIMEOUT = 30.0
"""Seconds without an answer."""
CLIENTS = ("httpx", "httpx2", "requests", "urllib3")
"""Packages that huggingface_hub speaks through, in its versions."""
REPOSITORY = r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}"


class Unreachable(Exception):
    """The source does not answer; what is in the cache may be used."""


class FamilySource(Protocol):
    """A place with the files of one family."""

    @property
    def identity(self) -> str:
        """What a cache knows it by."""

    def fetch(self, name: str, most: int, into: Path) -> None:
        """One file, of at most so many bytes. :class:`Unreachable` where nobody answers."""


def source_named(text: str) -> FamilySource:
    """A folder, an address ``https://...``, or a repository ``org/name`` or ``org/name@revision`` of a hub."""
    if re.match(r"https?://", text):
        return UrlSource(text.rstrip("/"))
    if Path(text).is_dir():
        return FolderSource(Path(text))
    name, at, revision = text.partition("@")
    if re.fullmatch(REPOSITORY, name) and (revision or not at):
        return HubSource(name, revision or "main")
    todo = "Write org/name@revision, an address that starts with https://, or the path of a folder."
    raise StoreError("where a family is", repr(text)[:200], todo)


@dataclass(frozen=True)
class FolderSource:
    """A map folder on this computer or on a shared disk."""

    path: Path

    @property
    def identity(self) -> str:
        return str(self.path.resolve())

    def fetch(self, name: str, most: int, into: Path) -> None:
        file = self.path / name
        if not file.is_file():
            raise _missing(name, str(self.path))
        with file.open("rb") as stream:
            _copy_bounded(stream, into, most, str(file))


@dataclass(frozen=True)
class UrlSource:
    """Any static file server or object store."""

    address: str

    @property
    def identity(self) -> str:
        return self.address

    def fetch(self, name: str, most: int, into: Path) -> None:
        address = f"{self.address}/{name}"
        try:
            request = urllib.request.Request(address, headers={"User-Agent": "sgfi"})
            with urllib.request.urlopen(request, timeout=TIMEOUT) as reply:
                _copy_bounded(reply, into, most, address)
        except urllib.error.HTTPError as error:
            if error.code in (404, 410):
                raise _missing(name, self.address) from error
            if error.code >= 500:
                raise Unreachable(f"{address}: {error.code} {error.reason}") from error
            todo = "Check the address, and whether it needs a login."
            raise StoreError(f"{name} from {self.address}", f"{error.code} {error.reason}", todo) from error
        except (http.client.InvalidURL, ValueError) as error:
            todo = "Write it as in https://example.org/maps, a blank as %20."
            raise StoreError("an address", f"{self.address!r} ({first_line(error)})", todo) from error
        except (urllib.error.URLError, http.client.HTTPException, OSError) as error:  # the reply may be cut short
            raise Unreachable(f"{address}: {first_line(error)}") from error


@dataclass(frozen=True)
class HubSource:
    """A repository of a hub that huggingface_hub speaks to; ``HF_ENDPOINT`` names another hub."""

    repository: str
    revision: str

    @property
    def identity(self) -> str:
        return f"{os.environ.get('HF_ENDPOINT', 'hub')} {self.repository}@{self.revision}"

    def fetch(self, name: str, most: int, into: Path) -> None:
        hub = need("huggingface_hub", "hub")
        options: dict[str, Any] = {"revision": self.revision, "endpoint": os.environ.get("HF_ENDPOINT")}
        with self._errors(name), tempfile.TemporaryDirectory(dir=into.parent) as folder:
            known = hub.get_hf_file_metadata(hub.hf_hub_url(self.repository, name, **options), timeout=TIMEOUT)
            if known.size is None or known.size > most:
                raise _too_large(f"{self.repository}/{name}", most)
            file = hub.hf_hub_download(
                self.repository, name, local_dir=folder, etag_timeout=TIMEOUT, library_name="sgfi", **options
            )
            shutil.move(file, into)

    @contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        errors = need("huggingface_hub.errors", "hub")
        try:
            yield
        except errors.RevisionNotFoundError as error:
            todo = "Name a branch, a tag or a commit that the repository has."
            raise StoreError(f"a revision of {self.repository}", f"{self.revision!r}, unknown", todo) from error
        except errors.RepositoryNotFoundError as error:
            todo = "Check the name; a private repository needs a login (hf auth login)."
            raise StoreError(f"a repository {self.repository} on the hub", "none of that name", todo) from error
        except errors.LocalEntryNotFoundError as error:
            raise Unreachable(first_line(error)) from error
        except errors.EntryNotFoundError as error:
            raise _missing(name, f"{self.repository}@{self.revision}") from error
        except Exception as error:
            lost = type(error).__module__.partition(".")[0] in CLIENTS  # the hub's client does not translate these
            if not lost and not isinstance(error, (errors.HfHubHTTPError, OSError)):
                raise
            raise Unreachable(f"{self.repository}: {first_line(error)}") from error


def _copy_bounded(stream: Any, into: Path, most: int, name: str) -> None:
    """No more than ``most`` bytes, whatever the other side says or sends."""
    left = most
    with into.open("wb") as out:
        while block := stream.read(min(1 << 20, left + 1)):
            left -= len(block)
            if left < 0:
                raise _too_large(name, most)
            out.write(block)


def _missing(name: str, where: str) -> StoreError:
    if name == MANIFEST:
        todo = "Check the name; a family published by sgfi has one."
        return StoreError(f"a map family at {where}", f"nothing, or no {MANIFEST} in it", todo)
    return StoreError(f"{name} at {where}, which its manifest names", "no such file", "Ask whoever published it.")


def _too_large(name: str, most: int) -> StoreError:
    return StoreError(f"{name} of at most {most} bytes", "more", "It is not what its manifest says: do not use it.")

"""Many inputs into a folder: goes on after a bad one, and goes on where it was interrupted."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whyformer import __version__
from whyformer.cli.options import IMAGE_ENDINGS, Given, load_for, look_of, read_input, shorten
from whyformer.errors import InputError, OutputError, WhyformerError
from whyformer.files import write_whole

SETTINGS = ".whyformer.json"


@dataclass(frozen=True)
class Entry:
    """An input of many: what to read, and its result's name without the ending."""

    source: str
    name: str
    text: str | None = None


def list_inputs(options: argparse.Namespace) -> list[Entry] | None:
    """The inputs where there are many, or None where there is one."""
    if options.lines:
        return _lines(options)
    paths = [Path(given) for given in options.input]
    if len(paths) == 1 and not paths[0].is_dir():
        return None
    files: list[tuple[Path, Path]] = []
    for path in paths:
        if path.is_dir():
            found = sorted(f for f in path.rglob("*") if f.suffix.lower() in IMAGE_ENDINGS)
            if not found:
                raise InputError(f"{path} holds no images ({', '.join(sorted(IMAGE_ENDINGS))})")
            files += [(file, file.relative_to(path)) for file in found]
        elif path.exists():
            files.append((path, Path(path.name)))
        else:
            raise InputError(
                f"no such file: {path}; a text of several words goes into quotation marks"
            )
    stems = [str(relative.with_suffix("")) for _, relative in files]
    return [
        Entry(str(file), stem if stems.count(stem) == 1 else str(relative))
        for (file, relative), stem in zip(files, stems, strict=True)
    ]


def _lines(options: argparse.Namespace) -> list[Entry]:
    entries: list[Entry] = []
    for given in options.input:
        content = read_input(given, argparse.Namespace()).content
        if not isinstance(content, str):
            raise InputError(f"{given} is an image; --lines reads text files")
        texts = [line for line in content.splitlines() if line.strip()]
        start = len(entries)
        entries += [Entry(shorten(t), f"{start + i + 1:05d}", t) for i, t in enumerate(texts)]
    if not entries:
        raise InputError("the file holds no lines of text")
    return entries


def explain_many(entries: Sequence[Entry], options: argparse.Namespace) -> int:
    """Explain every entry; returns 2 if some could not be."""
    from tqdm.auto import tqdm

    from whyformer.cli.explaining import explain_one, present

    folder = prepare_folder(options) if options.out else None
    waiting = [entry for entry in entries if not _is_done(entry, folder, options)]
    loaded: dict[str, Any] = {}
    failed = 0
    with tqdm(
        waiting, desc="explaining", unit="input", disable=options.quiet or folder is None
    ) as bar:
        for entry in bar:
            try:
                given = _read(entry, options)
                if given.kind not in loaded:
                    loaded[given.kind] = load_for(options, given.kind)
                sheet = explain_one(loaded[given.kind], given, options)
                one = argparse.Namespace(**vars(options))
                one.out = str(_result(entry, folder, options)) if folder else None
                one.quiet = options.quiet or folder is not None
                present(sheet, one)
            except OutputError:
                raise
            except WhyformerError as error:
                failed += 1
                where = "" if entry.source in str(error) else f"{entry.source}: "
                tqdm.write(f"whyformer: {where}{error}", file=sys.stderr)
    if folder is not None and not options.quiet:
        done, before = len(waiting) - failed, len(entries) - len(waiting)
        print(f"{folder}: {done} explained, {before} already there, {failed} failed")
    return 2 if failed else 0


def prepare_folder(options: argparse.Namespace) -> Path:
    """The folder for results, marked with the settings that they are made with."""
    from whyformer.render.saving import writer

    folder = Path(options.out)
    writer(Path(f"result.{options.format.lstrip('.')}"))
    if folder.is_file() or folder.suffix.lower() in (".png", ".html", ".json", ".npz", ".svg"):
        raise InputError(f"{folder} is a file's name; many inputs go into a folder")
    settings = {
        "whyformer": __version__,
        "model": options.model,
        "target": options.target,
        "method": options.method,
        "preset": options.preset,
        "pieces": options.pieces,
        "look": vars(look_of(options)),
    }
    mark = folder / SETTINGS
    if mark.is_file() and not options.overwrite:
        before = json.loads(mark.read_text(encoding="utf-8"))
        changed = [key for key in settings if before.get(key) != settings[key]]
        if changed:
            raise InputError(
                f"{folder} holds results made with another {changed[0]} "
                f"({before.get(changed[0])!r}, now {settings[changed[0]]!r}); choose another "
                "folder, or --overwrite"
            )
    write_whole(mark, json.dumps(settings, indent=1) + "\n")
    return folder


def _is_done(entry: Entry, folder: Path | None, options: argparse.Namespace) -> bool:
    """Whether there is a result that is no older than its input."""
    if folder is None or options.overwrite:
        return False
    result = _result(entry, folder, options)
    if not result.is_file():
        return False
    return entry.text is not None or (os.path.getmtime(entry.source) <= os.path.getmtime(result))


def _result(entry: Entry, folder: Path, options: argparse.Namespace) -> Path:
    return folder / f"{entry.name}.{options.format.lstrip('.')}"


def _read(entry: Entry, options: argparse.Namespace) -> Given:
    if entry.text is not None:
        return Given(entry.source, "text", entry.text)
    return read_input(entry.source, options)

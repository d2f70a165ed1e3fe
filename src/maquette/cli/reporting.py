"""`maquette report`: a page about a release, and its entry for a public registry."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from maquette.cli.options import Json, check_out
from maquette.cli.publishing import Published
from maquette.cli.showing import print_json

if TYPE_CHECKING:
    from maquette.releases import Release


def report(
    published: Published,
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="Output file (HTML).")],
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
    compare: Annotated[
        Path | None, typer.Option(help="A second release: write a page that compares the two instead.")
    ] = None,
    registry: Annotated[
        Path | None, typer.Option(help="Also write an entry for a public registry of releases (YAML).")
    ] = None,
    organisation: Annotated[str | None, typer.Option(help="Registry: publishing organisation.")] = None,
    use: Annotated[str | None, typer.Option(help="Registry: intended use.")] = None,
    data: Annotated[str | None, typer.Option(help="Registry: description of the data.")] = None,
    region: Annotated[str, typer.Option(help="Registry: region of the people.")] = "not stated",
    sector: Annotated[str | None, typer.Option(help="Registry: sector, such as Healthcare.")] = None,
    justification: Annotated[str | None, typer.Option(help="Registry: reason for the parameters.")] = None,
    published_on: Annotated[str | None, typer.Option("--date", help="Registry: publication date.")] = None,
    json: Json = False,
) -> None:
    """Write a page about a release: who is protected, how the budget was spent, how accurate it is. It costs nothing.

    With --compare it compares two releases: what each promises, and which differences noise does not explain.

    Example: maquette report people.maq --out report.html --title "People of Anywhere"
    """
    from maquette.releases import Release
    from maquette.reports import registry_entry, report as write

    if registry is not None and not (organisation and use and data):
        raise typer.BadParameter(
            "a registry entry also needs --organisation, --use and --data", param_hint="--registry"
        )
    for file in (out, registry):
        if file is not None:
            check_out(file)
    made = Release.load(published)
    if compare is not None:
        _compare(made, published, compare, out, json)
        return
    page = write(made, out, title=title)
    if registry is not None:
        entry = registry_entry(
            made,
            organisation=organisation or "",
            use=use or "",
            data=data or "",
            name=title,
            region=region,
            sector=sector,
            justification=justification,
            published=published_on,
        )
        registry.write_text(entry, encoding="utf-8")
    if json:
        print_json({"report": str(page), "registry": None if registry is None else str(registry)})
        return
    typer.echo(f"{page}: open it in a browser; it needs no network")
    if registry is not None:
        typer.echo(f"{registry}: check it, and send it to the registry")


def _compare(made: Release, first: Path, second: Path, out: Path, as_json: bool) -> None:
    """Write the page that compares two releases."""
    from maquette.releases import Release
    from maquette.reports import compare

    page = compare(made, Release.load(second), out, names=(first.name, second.name))
    if as_json:
        print_json({"comparison": str(page)})
    else:
        typer.echo(f"{page}: open it in a browser; it needs no network")

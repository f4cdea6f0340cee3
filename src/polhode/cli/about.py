"""`polhode about`: versions, processor, back end and cache, to paste into an issue."""

from __future__ import annotations

from polhode.cli.output import Json, emit, show


def about(as_json: Json = False) -> None:
    """Show versions, processor, back end and cache, to paste into an issue."""
    from polhode import environment

    facts = environment.report()
    if as_json:
        emit(facts)
        return
    width = max(map(len, facts))
    for key, value in facts.items():
        show(f"{key:<{width}}  {_in_words(value)}")


def _in_words(value: object) -> str:
    match value:
        case dict():
            return ", ".join(f"{key} {_in_words(each)}" for key, each in value.items()) or "none"
        case list():
            return "; ".join(map(str, value)) or "nothing"
        case bool():
            return "yes" if value else "no"
        case None:
            return "not installed"
        case _:
            return str(value)

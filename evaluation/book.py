#!/usr/bin/env python3
"""Makes the folder of which mdBook makes a book: the pages of docs/, with those that are generated in full.

    python3 evaluation/book.py path/to/cellpace FOLDER CLAIMS

Generated are every field of every JSON document (of the schemas), every parameter of every controller (of
`cellpace cc`), the claims of papers (of the file CLAIMS), and measurements in full; worked numbers of
specifications (vectors/spec/) stand behind their rules. In the repository these pages are short or absent.
"""
import json
import shutil
import sys
from pathlib import Path

import above_tcp
import many_flows
import parity
import servers
from program import ROOT, call, table


FIELDS = "`a[].b` is the field `b` of each object in the array `a`"


def cell(text):
    return " ".join(str(text).split()).replace("|", "\\|")


def kind(field):
    """The type of a field in a few words."""
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if "anyOf" in field:
        return " or ".join(kind(choice) for choice in field["anyOf"])
    kinds = field.get("type", "object")
    return kinds if isinstance(kinds, str) else " or ".join(kinds)


def inner(root, field):
    """The object that a field holds, with what stands behind the field's name for it; None without one."""
    if "$ref" in field:
        return inner(root, root["$defs"][field["$ref"].rsplit("/", 1)[1]])
    if "anyOf" in field:
        return inner(root, field["anyOf"][0])
    if "items" in field:
        found = inner(root, field["items"])
        return found and ("[]", found[1])
    return ("", field) if "properties" in field else None


def rows(root, thing, before=""):
    """A row for each field of an object, and for those of objects in it."""
    found = []
    for name, field in thing["properties"].items():
        optional = "" if name in thing.get("required", []) else ", or absent"
        found.append([f"`{before}{name}`", kind(field) + optional, cell(field.get("description", ""))])
        if held := inner(root, field):
            found += rows(root, held[1], f"{before}{name}{held[0]}.")
    return found


def schemas(short):
    """The page of schemas with a table of fields below each heading."""
    introduction = short.split("\n## ")[0].replace("`./dev book` writes them below each heading", FIELDS)
    parts = [introduction.rstrip() + "\n"]
    for path in sorted((ROOT / "docs" / "reference" / "schemas").glob("*.json")):
        schema = json.loads(path.read_text())
        fields = table(["field", "type", "meaning"], rows(schema, schema))
        parts.append(f"## {schema['title']}\n\n{schema['description']}\n\n{fields}")
    return "\n".join(parts)


def controllers(short):
    """The page of controllers with the parameters of each."""
    names = [line.split()[0] for line in call("cc").split("\n\n")[0].splitlines()]
    parts = [short.replace("; `./dev book` writes them below for every controller", "").rstrip() + "\n"]
    parts += [f"## {name}\n\n```text\n{call('cc', name, '--all').rstrip()}\n```\n" for name in names]
    return "\n".join(parts)


def measured():
    """Tables of recorded measurements, in full."""
    return f"""# Measurements in full

## Cells beyond the tolerances

The real run beside the range of the simulator with a slightly unsteady RTT or another moment of the start
([simulator and real packets](simulator.md)).

{parity.within()}
## Servers under load

[Above TCP](above-tcp.md#servers-under-load) says what the figures show.

{servers.full_table()}
## Many flows in the simulator

Microseconds of CPU time per packet (and beside the cost with one flow), by the number of flows.

{many_flows.full_table()}
""" + "\n".join(f"## {title}\n\n{text}" for title, text in above_tcp.full_tables().items())


def specifications(pages):
    """Puts the worked numbers of vectors/spec/ back behind each specification."""
    for numbers in sorted((ROOT / "vectors" / "spec").glob("*.md")):
        page = pages / "spec" / numbers.name
        rules, stub = page.read_text().rsplit("\n## ", 1)
        if "Worked numbers" not in stub:
            sys.exit(f"docs/spec/{numbers.name} does not end with its worked numbers")
        sections = numbers.read_text()
        page.write_text(rules + "\n" + sections[sections.index("## "):])


def main():
    folder = Path(sys.argv[2])
    shutil.rmtree(folder, ignore_errors=True)
    pages = folder / "docs"
    shutil.copytree(ROOT / "docs", pages)
    shutil.copy(ROOT / "book.toml", folder)
    for name, write in {"schemas": schemas, "controllers": controllers}.items():
        page = pages / "reference" / f"{name}.md"
        page.write_text(write(page.read_text()))
    (pages / "validation" / "papers.md").write_text(Path(sys.argv[3]).read_text())
    (pages / "validation" / "measured.md").write_text(measured())
    specifications(pages)
    summary = (pages / "SUMMARY.md").read_text()
    beside = "- [Inside QUIC](validation/quic.md)\n"
    if beside not in summary:
        sys.exit(f"docs/SUMMARY.md lacks {beside}")
    (pages / "SUMMARY.md").write_text(
        summary.replace(beside, "- [Claims of papers, one by one](validation/papers.md)\n"
                         "- [Measurements in full](validation/measured.md)\n" + beside))


if __name__ == "__main__":
    main()

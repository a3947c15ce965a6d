"""The columns of both tables as the manual has them. A test compares the two."""

from gossamer.look.tables import TABLES


def reference() -> str:
    """Markdown, one table for each."""
    lines: list[str] = []
    for name, (columns, *_) in TABLES.items():
        lines += [f"### `{name}`", "", "| column | type | meaning |", "|---|---|---|"]
        lines += [f"| `{column.name}` | {column.type} | {column.meaning} |" for column in columns]
        lines.append("")
    return "\n".join(lines)

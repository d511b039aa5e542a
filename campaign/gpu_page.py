#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/gpu.md from the results of campaigns: a section for each folder in docs/gpu, the
newest first.

gpu_page.py --results docs/gpu --page docs/gpu.md
"""

import argparse
import collections
import json
import pathlib
import sys

from gpu_text import bytes_text, cell_text, escaped, measured_text

HERE = pathlib.Path(__file__).resolve().parent
NOT_MEASURED = "not measured yet"

HEAD = """# On GPUs

The planned measurements of berth and the driver on hardware, and the results so far.
`campaign/gpu_page.py` writes this page from the JSON results of campaigns, which are kept in
`docs/gpu/<name>`. Where hardware and the simulated driver disagree, the hardware is right.

## How to measure

On a machine that can build berth:

```sh
./run gpu-bundle /tmp/berth-on-gpu
```

On the machine with the GPU, which needs an NVIDIA driver and Python, and nvcc or libnvrtc for the
figures that involve kernels:

```sh
/tmp/berth-on-gpu/campaign --out results
```

This takes 8 minutes at most. `--list` prints the parts. Then move `results` to `docs/gpu/<name>`,
and run `campaign/gpu_page.py`.
"""
LEGEND = """Where a cell has two times, they are the median and the 99th percentile, with the number
of calls in parentheses. A call that "outlasted the kernel" began at least 10 ms before the end of a
kernel, and ended after it.
"""


def case_rows(rows):
    """The cases of the contract: how many ended how, and each that does not agree."""
    cases = [row for row in rows if "case" in row]
    if not cases:
        return
    counts = collections.Counter(row["outcome"] for row in cases)
    yield "all", ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    for row in cases:
        if row["outcome"] not in ("agrees", "not applicable"):
            yield row["case"], "; ".join([row["outcome"], *row.get("said", [])])


def rows_of(figure, rows):
    if figure == "cases":
        return list(case_rows(rows))
    return [
        (row["row"], measured_text(row) or NOT_MEASURED)
        for row in rows
        if row.get("figure") == figure
    ]


def table(heads, lines):
    yield f"| {' | '.join(map(escaped, heads))} |"
    yield f"|{'---|' * len(heads)}"
    for cells in lines:
        yield f"| {' | '.join(map(escaped, cells))} |"
    yield ""


def table_by_place(says, down, rows):
    """Rows with the same value of `down` are one line; a column for each of their other
    circumstances."""
    cells, columns = collections.defaultdict(dict), []
    for row in rows:
        if "at" not in row:
            continue
        column = ", ".join(value for name, value in row["at"].items() if name != down)
        if column not in columns:
            columns.append(column)
        cells[row["at"][down]][column] = cell_text(row)
    yield f"{says[:1].upper()}{says[1:]}:"
    yield ""
    if cells:
        lines = [
            [line, *(found.get(column, NOT_MEASURED) for column in columns)]
            for line, found in cells.items()
        ]
        yield from table([down, *columns], lines)
    without_place = [row for row in rows if "at" not in row]
    if without_place:
        yield from (
            f"* {escaped(row['row'])}: {escaped(measured_text(row))}" for row in without_place
        )
        yield ""


def blocks_of(figures, rows):
    """Tables of a part. Figures without results, and those with the same cases, stand in one table
    when they follow each other."""
    lists, missing = [], []  # [(cases, {figure: values})], and figures

    def flush():
        for cases, columns in lists:
            yield from table(["case", *columns], zip(cases, *columns.values()))
        if missing:
            yield from table(["question", "measured"], [(says, NOT_MEASURED) for says in missing])
        lists.clear()
        missing.clear()

    for figure, spec in figures.items():
        says = spec["says"] if isinstance(spec, dict) else spec
        found = [row for row in rows if row.get("figure") == figure]
        named = rows_of(figure, rows)
        if not named:
            if lists:
                yield from flush()
            missing.append(says)
        elif isinstance(spec, dict):
            yield from flush()
            yield from table_by_place(says, spec["down"], found)
        else:
            cases = [name for name, _ in named]
            if missing or (lists and lists[-1][0] != cases):
                yield from flush()
            if not lists:
                lists.append((cases, {}))
            lists[-1][1][says] = [text for _, text in named]
    yield from flush()


def endings(result):
    """The failures, if there are any."""
    if result is None or result["outcome"] in ("done", "skipped"):
        return
    yield f"The part {result['outcome']} after {result['seconds']:.0f} s."
    for program in result.get("programs", ()):
        if program["outcome"] not in ("done", "skipped"):
            how = (
                program.get("signal")
                or program.get("why")
                or (program.get("text") or "").strip()[-300:]
            )
            ending = ", ".join(filter(None, [program["outcome"], how]))
            yield f"* {program['program']}: {escaped(ending)}"
    yield ""


def part_section(part, figures, result):
    rows = result["rows"] if result else []
    yield f"### {part}"
    yield ""
    yield from endings(result)
    yield from blocks_of(figures, rows)
    others = {
        row["figure"]: None for row in rows if "figure" in row and row["figure"] not in figures
    }
    for figure in others:  # of a bundle that is older or newer than this script
        yield from table([figure, "measured"], rows_of(figure, rows))


def fact(results, name, unknown):
    rows = results.get("facts", {}).get("rows", ())
    return next(
        (row["value"] for row in rows if row.get("row") == name and "value" in row), unknown
    )


def about_campaign(summary, results, name):
    machine = summary["machine"]
    known = [
        f"CUDA {fact(results, 'driver, as cuDriverGetVersion says', '?')}, {machine['host']}, "
        f"{machine['cpus']} processors; berth {summary['bundle']['berth']}.",
        f"Kernels: {summary['kernels'][:300]}.",
    ]
    free = [summary.get("bytes_free_before"), summary.get("bytes_free_after")]
    if None not in free:
        known.append(
            f"Free memory before and after: {bytes_text(free[0])} and {bytes_text(free[1])}."
        )
    if "interrupted" in summary:
        known.append(f"The campaign was interrupted by {summary['interrupted']}.")
    known.append(f"All results are in `docs/gpu/{name}`.")
    return escaped(" ".join(known))


def read_json(path):
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        sys.exit(f"gpu_page: {path} is no JSON: {error}")


def read_campaign(folder, accept_simulated):
    summary = read_json(folder / "campaign.json")
    if "began" not in summary:
        sys.exit(f"gpu_page: {folder}: the campaign ended before its first part")
    if not accept_simulated and (summary.get("driver") == "sim" or summary.get("quick")):
        sys.exit(f"gpu_page: {folder}: a rehearsal is no measurement")
    results = {
        path.stem: read_json(path) for path in folder.glob("*.json") if path.name != "campaign.json"
    }
    return summary, results


def title_of(summary, results):
    return f"{fact(results, 'device', 'Unknown device')}, {summary['began'][:10]}"


def page(results_folder, catalogue, accept_simulated=False):
    lines = [HEAD]
    folders = [path.parent for path in results_folder.glob("*/campaign.json")]
    campaigns = [(folder.name, *read_campaign(folder, accept_simulated)) for folder in folders]
    campaigns.sort(key=lambda each: (each[1]["began"], each[0]), reverse=True)
    titles = collections.Counter(title_of(summary, results) for _, summary, results in campaigns)
    if campaigns:
        lines.append(LEGEND)
    for name, summary, results in campaigns:
        title = title_of(summary, results)
        lines.extend([f"## {escaped(title if titles[title] == 1 else f'{title}, {name}')}", ""])
        lines.extend([about_campaign(summary, results, name), ""])
        for part, figures in catalogue.items():
            lines.extend(part_section(part, figures, results.get(part)))
    if not campaigns:
        lines.extend(["## Results", "", "No campaign has run yet.", ""])
        for part, figures in catalogue.items():
            lines.extend(part_section(part, figures, None))
    return "\n".join(lines).rstrip() + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--results", type=pathlib.Path, default=HERE.parent / "docs/gpu")
    parser.add_argument("--page", type=pathlib.Path, default=HERE.parent / "docs/gpu.md")
    options = parser.parse_args()
    catalogue = json.loads((HERE / "figures.json").read_text(encoding="utf-8"))
    options.page.write_text(page(options.results, catalogue), encoding="utf-8")


if __name__ == "__main__":
    main()

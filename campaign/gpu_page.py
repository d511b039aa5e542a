#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/gpu.md from the results of campaigns: a section for each folder of docs/gpu, the newest first.

  gpu_page.py --results docs/gpu --page docs/gpu.md
"""
import argparse
import collections
import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
NOT_MEASURED = "not measured yet"

HEAD = """# On GPUs

What berth does on hardware, and what the hardware does. This page is written by `campaign/gpu_page.py` from the JSON
that a campaign leaves, which is kept in `docs/gpu`, a folder for each. Where hardware and the simulated driver
disagree, the hardware is right.

## How to measure

On a machine that can build berth:

```sh
./run gpu-bundle /tmp/berth-on-gpu
```

and on the one with the GPU, which needs an NVIDIA driver, Python, and nvcc or libnvrtc for what runs kernels:

```sh
/tmp/berth-on-gpu/campaign --out results
```

That takes 8 minutes at most. `--list` says which parts there are.
"""


def time_text(nanoseconds):
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.3g} ns"


def value_text(name, value):
    if name.startswith("ns_"):
        return f"{name[3:].replace('_', ' ')} {time_text(value)}"
    if name in ("gigabytes_per_second", "of_the_driver_alone"):
        return f"{value:.3g} GB/s{' by the driver alone' if name == 'of_the_driver_alone' else ''}"
    if name.startswith("waste"):
        return f"{value:.2f} % waste"
    if isinstance(value, float):
        return f"{value:.3g} {name.replace('_', ' ')}"
    if name in ("value", "outcome"):
        return str(value)
    if name == "count":
        return f"{value} times"
    if name == "skipped":
        return f"not applicable: {value}"
    return f"{value} {name.replace('_', ' ')}"


def measured_text(row):
    """What a row says beside its name; "" where it says nothing."""
    left_out = ("program", "figure", "row", "seconds", "exit_status", "text", "stacks", "signal", "unit")
    if "unit" in row:  # a benchmark: berth and its peers, in one unit
        return ", ".join(f"{name} {value:.3g} {row['unit']}" for name, value in row.items() if name not in left_out)
    return ", ".join(value_text(name, value) for name, value in row.items() if name not in left_out)


def escaped(text):
    return str(text).replace("|", "\\|").replace("\n", " ")


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
    return [(row["row"], measured_text(row) or NOT_MEASURED) for row in rows if row.get("figure") == figure]


def groups_of(measured):
    """Figures that follow each other and have the same cases, together: (cases, {figure: what is measured in each})."""
    groups = []
    for says, rows in measured.items():
        cases = [name for name, _ in rows]
        if not groups or groups[-1][0] != cases:
            groups.append((cases, {}))
        groups[-1][1][says] = [text for _, text in rows]
    return groups


def part_table(part, figures, result):
    rows = result["rows"] if result else []
    yield f"### {part}"
    yield ""
    if result and result["outcome"] not in ("done", "skipped"):
        yield f"The part {result['outcome']} after {result['seconds']:.0f} s."
        yield ""
    for cases, columns in groups_of({says: rows_of(figure, rows) for figure, says in figures.items()}):
        titles = list(columns) if any(cases) else ["measured"]
        heads = ["case" if any(cases) else "question", *titles]
        yield f"| {' | '.join(map(escaped, heads))} |"
        yield f"|{'---|' * len(heads)}"
        if any(cases):
            for case, *cells in zip(cases, *columns.values()):
                yield f"| {' | '.join(map(escaped, [case, *cells]))} |"
        else:
            for says in columns:
                yield f"| {escaped(says)} | {NOT_MEASURED} |"
        yield ""


def campaign_section(title, about, results, catalogue):
    yield f"## {title}"
    yield ""
    yield about
    yield ""
    for part, figures in catalogue.items():
        yield from part_table(part, figures, results.get(part))


def about_campaign(summary, results):
    facts = {row["row"]: row["value"] for row in results.get("facts", {}).get("rows", ()) if row.get("figure") == "facts"}
    machine = summary["machine"]
    return (
        f"{facts.get('device', 'an unknown device')}, CUDA {facts.get('driver, as cuDriverGetVersion says', '?')}, "
        f"{machine['host']}, {machine['cpus']} processors; berth {summary['bundle']['berth']}, "
        f"{summary['began'][:10]}. Kernels: {summary['kernels']}."
    )


def read_campaign(folder):
    summary = json.loads((folder / "campaign.json").read_text(encoding="utf-8"))
    results = {
        path.stem: json.loads(path.read_text(encoding="utf-8"))
        for path in folder.glob("*.json")
        if path.name != "campaign.json"
    }
    return summary, results


def page(results_folder, catalogue):
    lines = [HEAD]
    folders = [path.parent for path in results_folder.glob("*/campaign.json")]
    campaigns = sorted(
        ((*read_campaign(folder), folder.name) for folder in folders), key=lambda each: each[0]["began"], reverse=True
    )
    for summary, results, name in campaigns:
        lines.extend(campaign_section(name, about_campaign(summary, results), results, catalogue))
    if not campaigns:
        lines.extend(campaign_section("Results", "No campaign has run yet.", {}, catalogue))
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

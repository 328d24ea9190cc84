"""Does a run hold each row of its input once? Standard library only; shares no code with what it audits.

    python tests/auditor.py RUN INPUT.jsonl [--samples N]

A sample is paired with an input row by the text of the prompt that its record stores, never by its key; a failure,
which stores no prompt, by its line. Prints counts, and exits 1 unless nothing is missing, doubled or foreign.
"""

import argparse
import hashlib
import json
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ASSISTANTS = {"assistant", "gpt", "chatgpt", "bard", "bot", "model"}
USERS = {"user", "human"}
Said = list[tuple[str, str]]


def rows(path: Path) -> Iterator[tuple[int, Said]]:
    """(line, what was said to the model) of every row that has something to ask."""
    with path.open("rb") as file:
        for line, content in enumerate(file, 1):
            try:
                row = json.loads(content.decode("utf-8-sig"))
            except ValueError:
                continue
            said = asked(row) if isinstance(row, dict) else []
            if any(role == "user" and text for role, text in said):
                yield line, said


def asked(row: dict) -> Said:
    """Everything but the assistant's words, whitespace evened out."""
    system = [{"role": "system", "content": row[name]} for name in ("system", "system_prompt") if row.get(name)]
    if isinstance(row.get("body"), dict):
        row = row["body"]
    for name in ("messages", "conversations", "conversation", "prompt"):
        if isinstance(row.get(name), list):
            return heard(system + row[name])
    if isinstance(row.get("turns"), list):
        return heard(system + [{"role": "user", "content": turn} for turn in row["turns"]])
    text = next((row[name] for name in ("prompt", "question", "instruction") if isinstance(row.get(name), str)), "")
    if isinstance(row.get("instruction"), str) and text == row["instruction"]:
        first = (row.get("instances") or [{}])[0]
        text += "\n" + (row.get("input") or row.get("context") or first.get("input") or "")
    return heard([*system, {"role": "user", "content": text}])


def heard(messages: list[dict]) -> Said:
    said: Said = []
    for message in messages:
        role = str(message.get("role", message.get("from", ""))).lower()
        if role in ASSISTANTS:
            continue
        content = message.get("content", message.get("value"))
        if isinstance(content, list):
            content = " ".join(part.get("text", "") for part in content)
        said.append(("user" if role in USERS else role, " ".join(str(content or "").split())))
    return said


def mark(said: Said) -> bytes:
    return hashlib.sha256(json.dumps(said).encode()).digest()[:16]


def outcomes(run: Path) -> Iterator[tuple[dict | None, bool]]:
    """(a record, whether the table that counts agrees with it); None for an outcome without a record."""
    query = """SELECT lower(hex(key)), sample, turn, state, body FROM outcome LEFT JOIN record ON id = record
        UNION ALL SELECT NULL, NULL, NULL, NULL, body FROM record WHERE id NOT IN (SELECT record FROM outcome)"""
    for path in sorted((run / "ledger").glob("*.sqlite")):
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        for key, sample, turn, state, body in database.execute(query):
            found = json.loads(body) if body is not None else None
            same = found is not None and (key, sample, turn, state == 0) == (
                found["key"], found["sample"], found["turn"], found["type"] == "sample"
            )  # fmt: skip
            yield found, same
        database.close()


def audit(run: Path, source: Path, samples: int) -> dict[str, int]:
    whole: Counter[bytes] = Counter()
    begun: set[bytes] = set()
    by_line: dict[int, bytes] = {}
    for line, said in rows(source):
        by_line[line] = mark(said)
        whole[by_line[line]] += 1
        begun.update(mark(said[:length]) for length in range(1, len(said)))
    ended: Counter[tuple[bytes, int]] = Counter()
    turns: Counter[tuple[str, int, int]] = Counter()
    count: Counter[str] = Counter()
    for found, same in outcomes(run):
        count["outcomes"] += 1
        if found is None or not same or not 0 <= found["sample"] < samples:
            count["foreign"] += 1
            continue
        turns[found["key"], found["sample"], found["turn"]] += 1
        failed = found["type"] == "failure"
        prompt = by_line.get(found["origin"]["line"], b"") if failed else mark(heard(found["messages"]))
        if failed or found["turn"] + 1 == found["turns"]:
            count["foreign"] += prompt not in whole
            ended[prompt, found["sample"]] += prompt in whole
            count["failures"] += failed
        else:
            count["foreign"] += prompt not in begun
    pairs = [(number, ended[prompt, sample]) for prompt, number in whole.items() for sample in range(samples)]
    return {
        "input rows": whole.total(),
        "outcomes": count["outcomes"],
        "failures": count["failures"],
        "missing": sum(max(0, wanted - got) for wanted, got in pairs),
        "doubled": sum(max(0, got - wanted) for wanted, got in pairs) + sum(n - 1 for n in turns.values()),
        "foreign": count["foreign"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("input", type=Path)
    parser.add_argument("--samples", type=int, default=1)
    given = parser.parse_args()
    found = audit(given.run, given.input, given.samples)
    print(", ".join(f"{name} {number}" for name, number in found.items()))
    return 1 if found["missing"] or found["doubled"] or found["foreign"] else 0


if __name__ == "__main__":
    sys.exit(main())

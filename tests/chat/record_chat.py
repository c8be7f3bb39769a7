"""record_chat.py: records in chat_cases.json what transformers and jinja2 make of random conversations, with the templates
of templates/, and of random expressions. A text of null is an error. What Brasa refuses by name is left out. Run it as
`python3 record_chat.py LIBRARY > chat_cases.json`."""

import json
import random
import sys

import compare_chat

r, brasa = random.Random(7), compare_chat.Brasa(sys.argv[1])
cases = []
for path in sorted((compare_chat.HERE / "templates").glob("*.jinja")):
    for _ in range(40):
        variables = compare_chat.conversation(r)
        text, _ = compare_chat.reference(path.read_text(encoding="utf-8"), variables)
        cases.append({"file": path.name, "variables": variables, "text": text})
brief = set()
while len(brief) < 500:
    template = compare_chat.random_template(r)
    text, _ = compare_chat.reference(template, compare_chat.VARIABLES)
    refused = text is None and r.random() > 0.1  # most random expressions are errors
    if len(template) > 160 or template in brief or refused or (text and " at 0x" in text.lower()):
        continue
    message = brasa.render(template, compare_chat.VARIABLES)[1]
    if text is not None and message and compare_chat.is_refusal(message):
        continue
    brief.add(template)
    cases.append({"template": template, "text": text})
print(json.dumps({"expressions_with": compare_chat.VARIABLES, "cases": cases}, ensure_ascii=False, indent=0))

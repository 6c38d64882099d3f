"""A search strategy that asks a program for schedules, such as one with a language model behind it.

    TILEWRIGHT_PROPOSER="python my_proposer.py" tune run --kernel matmul --strategy tilewright.examples.ask_a_program:AskProgram

The program reads a JSON object a line from standard input, and answers each with a line: a JSON list of schedules in short form, such as
["Um6 Un64 Pm"]; an empty list where it knows nothing more. The first object has `options`, the legal ones to begin with. Each has `wanted`,
how many schedules the search has room for, and `told`, what became of earlier ones: `schedule`, `outcome`, and `seconds` of a right result.
What is illegal or was asked for before is told back as such and costs no measurement; what computes wrong results is measured as wrong:
the program can save time, but cannot make anything win that is not right and fast."""

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys

from tilewright.ir import OptError, UsageError
from tilewright.opts import parse, short
from tilewright.search import Strategy, seconds

PROGRAM = "TILEWRIGHT_PROPOSER"
ROUNDS = 3
"""Answers in a row without a new legal schedule after which the program is not asked again."""
LONGEST = 1 << 20
"""Characters of an answer."""


class AskProgram(Strategy):
    """Schedules that a program proposes."""

    name = "ask-a-program"

    def __init__(self, space, *, seed=0, start=()):
        super().__init__(space, seed=seed, start=start)
        command = os.environ.get(PROGRAM)
        if not command:
            raise UsageError(f"{PROGRAM} names no program: set it to the command that proposes schedules")
        try:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            self.program = subprocess.Popen(shlex.split(command), start_new_session=True, **pipes)
        except (OSError, ValueError) as e:
            raise UsageError(f"{PROGRAM}={command}: the program does not start: {e}") from None
        self.told, self.known, self.misses, self.first = [], set(), 0, True

    def ask(self, n):
        out = []
        while not out and not self.done:
            out = self._legal(self._answer(n))[:n]
            self.misses = 0 if out else self.misses + 1
        return out

    def _answer(self, n):
        """What the program proposes now; nothing where it has ended or says what is no list."""
        question = {"wanted": n, "told": self.told}
        if self.first:
            root = self.space.state(())
            question["options"] = [short(a) for a in self.space.actions(root)] if root is not None else []
        self.first, self.told = False, []
        with contextlib.suppress(BrokenPipeError):  # it has ended; what it said before that is read
            self.program.stdin.write(json.dumps(question) + "\n")
            self.program.stdin.flush()
        line = self.program.stdout.readline(LONGEST)
        try:
            answer = json.loads(line or "null")
        except ValueError:
            answer = None
        if not isinstance(answer, list):
            self.misses = ROUNDS  # it has ended, or does not speak this language
            said = f"{line.strip()[:100]!r} is no list of schedules" if line else "the program has ended"
            print(f"{PROGRAM}: {said}; it is not asked again", file=sys.stderr)
            return []
        return [text for text in answer if isinstance(text, str)]

    def _legal(self, proposals):
        found = []
        for text in proposals:
            try:
                state = self.space.state(parse(text))
            except OptError as e:
                self.told.append({"schedule": text, "outcome": f"no schedule: {e}", "seconds": None})
                continue
            if state is None or state.hash in self.known:
                self.told.append({"schedule": text, "outcome": "illegal here" if state is None else "known already", "seconds": None})
                continue
            self.known.add(state.hash)
            found.append(state.opts)
        return found

    def tell(self, opts, measurement):
        state = self.space.state(opts)
        if state is not None:
            self.known.add(state.hash)
        time = seconds(measurement)
        self.told.append({"schedule": short(opts), "outcome": str(measurement.outcome), "seconds": time if time < float("inf") else None})

    @property
    def done(self):
        return self.misses >= ROUNDS

    def close(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.program.pid, signal.SIGKILL)  # and what it started, such as what a shell waits for
        self.program.wait()
        with contextlib.suppress(BrokenPipeError):  # it ended with a question unread
            self.program.stdin.close()
        self.program.stdout.close()

"""How long until something private is on the screen: import, first answer, demo. Each in a fresh process."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

STEPS = {
    "import maquette": "import maquette",
    "first answer (3 rows)": (
        "import maquette as mq\n"
        "schema = mq.Schema([mq.Boolean('smoker')])\n"
        "curator = mq.Curator(mq.open_table({'smoker': [True, False, True]}, schema), mq.Budget(epsilon=1.0))\n"
        "mq.answer(curator, 'SELECT count(*) FROM t WHERE smoker', epsilon=0.5)\n"
    ),
    "demo (100,000 rows)": "from maquette.demo import tell; tell()",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one repetition instead of five")
    repetitions = 1 if parser.parse_args().quick else 5
    print(f"{'step':24} {'wall s':>8} {'CPU s':>8}   best of {repetitions}")
    for name, code in STEPS.items():
        wall, cpu = min(_timed(code) for _ in range(repetitions))
        print(f"{name:24} {wall:8.2f} {cpu:8.2f}")


def _timed(code: str) -> tuple[float, float]:
    timer = f"import time\nb = time.process_time()\n{code}\nimport sys\nprint(time.process_time() - b, file=sys.stderr)"
    began = time.perf_counter()
    run = subprocess.run([sys.executable, "-c", timer], check=True, capture_output=True, text=True)
    return time.perf_counter() - began, float(run.stderr.split()[-1])


if __name__ == "__main__":
    main()

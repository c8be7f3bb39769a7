"""Writes python_random_values.h: random numbers of Python's random after random.seed(), one row per seed.
Usage: python3 record_python_random.py > python_random_values.h"""
import random
import textwrap

SEEDS = (0, 1, 42, 2**32 - 1, 2**32, 2**63 + 12345, 2**64 - 1)
BOUNDS = (1, 2, 11, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**63 - 1)
RANGES = ((0, 69), (-3, 3), (7, 7), (-2**63, 2**63 - 2))


def c(number):
    """Returns an int64_t constant; the smallest one has no literal."""
    return f"INT64_C({number})" if number > -2**63 else "INT64_MIN"


def rows(values):
    return textwrap.fill(", ".join(values), 90, initial_indent="      ", subsequent_indent="      ",
                         break_on_hyphens=False)


def record(seed):
    """Prints a row, in the order of the test: random, randrange, randint, shuffle, then 1000 times random."""
    random.seed(seed)
    print(f"    {{ UINT64_C({seed}), {random.random()!r},\n      {{")
    print(rows(c(random.randrange(n)) for n in BOUNDS), "},\n      {")
    print(rows(c(random.randint(low, high)) for low, high in RANGES), "},\n      {")
    order = list(range(20))
    random.shuffle(order)
    print(rows(map(str, order)), "},")
    total = 0.0  # not by sum(), which rounds differently from Python 3.12 on
    for _ in range(1000):
        total += random.random()
    print(f"      {total!r}, {random.random()!r} }},")


print("/* Made by record_python_random.py. */")
print("/* clang-format off */")
print("#include <stdint.h>\n")
print(f"enum {{ N_BOUNDS = {len(BOUNDS)}, N_RANGES = {len(RANGES)}, N_ORDER = 20 }};")
print("static const int64_t bounds[] = {\n", rows(map(c, BOUNDS)), "\n};", sep="")
print("static const int64_t ranges[][2] = {\n",
      ",\n".join(f"      {{ {c(low)}, {c(high)} }}" for low, high in RANGES), "\n};", sep="")
print("static const struct drawn {\n    uint64_t seed;\n    double first;\n"
      "    int64_t randrange[N_BOUNDS], randint[N_RANGES], order[N_ORDER];\n"
      "    double sum_of_1000, last;\n} drawn[] = {")
for number in SEEDS:
    record(number)
print("};")

"""Command line: `python -m benchmarks list | run NAME ... [options] | show NAME ...`."""

import argparse
import importlib
import inspect
import pkgutil
from types import ModuleType
from typing import Any

import benchmarks
from benchmarks._common import Skip, read_results, write_results


def discover() -> dict[str, ModuleType]:
    """Return every public module of the package by name: each is one table or figure."""
    names = sorted(m.name for m in pkgutil.iter_modules(benchmarks.__path__))
    return {
        name: importlib.import_module(f"benchmarks.{name}")
        for name in names
        if not name.startswith("_")
    }


def first_line(module: ModuleType) -> str:
    return (module.__doc__ or "").strip().partition("\n")[0]


def run(name: str, module: ModuleType, options: dict[str, Any]) -> None:
    """Run one benchmark with those options that it takes, store and print its results."""
    taken = inspect.signature(module.run).parameters
    if options["only"] and "only" not in taken:
        print(f"{name}: skipped, it cannot be run in parts")
        return
    try:
        results = module.run(**{key: value for key, value in options.items() if key in taken})
    except Skip as reason:
        print(f"{name}: skipped, {reason}")
        return
    write_results(name, results, quick=options["quick"])
    print(f"## {first_line(module)}\n\n{module.report(results)}\n")


def show(name: str, module: ModuleType) -> None:
    """Print the stored results of the last full run."""
    results = read_results(name)
    print(module.report(results) if results else f"{name}: no results yet")


def parse(names: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="name every benchmark")
    run = commands.add_parser("run", help="measure, store and print")
    run.add_argument("--quick", action="store_true", help="a small version, to try it out")
    run.add_argument(
        "--reuse-grid", action="store_true", help="keep the last run's grids and rivals"
    )
    run.add_argument("--only", metavar="TEXT", help="those parts whose label contains TEXT")
    show = commands.add_parser("show", help="print the stored results")
    for command in (run, show):
        command.add_argument("names", nargs="+", metavar="NAME", choices=names)
    return parser.parse_args()


def main() -> None:
    modules = discover()
    args = parse(list(modules))
    if args.command == "list":
        for name, module in modules.items():
            print(f"{name:15} {first_line(module)}")
    elif args.command == "run":
        for name in args.names:
            options = {"quick": args.quick, "reuse_grid": args.reuse_grid, "only": args.only}
            run(name, modules[name], options)
    else:
        for name in args.names:
            show(name, modules[name])


if __name__ == "__main__":
    main()

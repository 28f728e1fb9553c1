"""Check losses and methods against what each must hold: bench conformance [NAME|./my_loss.py|./my_method.py ...]."""

from suppression_bench.commands._parser import Parser


def run(arguments: list[str]) -> int:
    """A table of checks; 1 where one of them failed."""
    parser = Parser("conformance", "Check losses and methods: formulas, gradients, symmetries, stop-gradients, labels.")
    parser.add_argument("names", type=str, nargs="*", help="names or .py files of losses and methods (default: all)")
    flags = parser.read(arguments)
    from suppression_bench import conformance

    failed = total = 0
    for name, checks in conformance.run(flags.names):
        broken = [check for check in checks if not check.passed]
        failed, total = failed + len(broken), total + len(checks)
        print(f"{name}: {len(checks) - len(broken)} of {len(checks)} hold", flush=True)
        for check in checks if flags.names else broken:
            detail = f" ({check.detail})" if check.detail else ""
            print(f"  {'pass' if check.passed else 'FAIL'}  {check.name}{detail}")
    print(f"{total - failed} of {total} checks hold")
    return 1 if failed else 0

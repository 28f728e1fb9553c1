"""Print a dataset's card - features, counts, joint counts, sources, digest: bench describe DIR [--out card.md]."""

from generators import card, opened
from generators.dataset import UserError
from suppression_bench.commands._parser import Parser


def run(arguments: list[str]) -> int:
    """Describe a generated folder."""
    parser = Parser("describe", "Print the card of a generated dataset as Markdown, or write it with a contact sheet.")
    parser.add_argument("folder", type=str, help="a folder that `bench generate` wrote")
    parser.add_argument("--out", type=str, default=None, help="an .md file; the sheet goes beside it as .png")
    flags = parser.read(arguments)
    if flags.out and not flags.out.endswith(".md"):
        raise UserError(f"bench describe: --out {flags.out}: a card is Markdown; name a file that ends in .md")
    found = opened.open_folder(flags.folder)
    if flags.out is None:
        print(card.card(found), end="")
    else:
        print("written: " + ", ".join(map(str, card.write(found, flags.out))))
    return 0

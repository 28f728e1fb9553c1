"""Options read from signatures, plug-ins found by name or by path, strict JSON."""

import os
import sys
from typing import Literal

import pytest
from toy_data import write_toy

from generators import catalog, files
from generators.build import build
from generators.catalog import check_options, convert, describe_type, did_you_mean
from generators.dataset import Dataset, UserError
from generators.inspect import verify


@pytest.mark.parametrize(
    "value, annotation, expected",
    [
        ("4", int, 4),
        (4, int, 4),
        ("-3", int, -3),
        ("0.1", float, 0.1),
        (1, float, 1.0),
        ("1e-3", float, 0.001),
        ("true", bool, True),
        ("false", bool, False),
        (True, bool, True),
        (False, bool, False),
        ("x", str, "x"),
        ("none", int | None, None),
        ("null", int | None, None),
        (None, int | None, None),
        ("7", int | None, 7),
        ("none", str | None, None),
        ("none", str, "none"),
        ("20,80", list[int], [20, 80]),
        ([20, "80"], list[int], [20, 80]),
        ((1, 2), list[int], [1, 2]),
        ("20", list[int] | None, [20]),
        ("none", list[int] | None, None),
        ("a", Literal["a", "b"], "a"),
        ("0.5,2", list[float], [0.5, 2.0]),
    ],
)
def test_convert(value, annotation, expected):
    found = convert(value, annotation)
    assert found == expected and type(found) is type(expected)


@pytest.mark.parametrize(
    "value, annotation",
    [
        (True, int),
        (False, float),
        (True, int | None),
        ([True], list[int]),
        (True, str),
        (True, list[int]),
        ("nan", float),
        (float("nan"), float),
        ("inf", float),
        ("-Infinity", float),
        (float("-inf"), float),
        ("1e999", float),
        (10**400, float),
        ("0.5,nan", list[float]),
        ("nan", float | None),
        (1.0, int),
        (1.5, int),
        ("1.0", int),
        ("1_0", int),
        ("1_0.5", float),
        ("", int),
        ("", list[int]),
        ([], list[int]),
        ("20,", list[int]),
        (1, bool),
        (0, bool),
        ("yes", bool),
        ("True", bool),
        (1, str),
        (None, str),
        (None, int),
        (None, list[int]),
        ("c", Literal["a", "b"]),
        (True, Literal[1, 2]),
        ({}, int),
        ({"a": 1}, list[int]),
        ("x", int | None),
        ([1], int | None),
    ],
    ids=lambda value: str(value)[:20],
)
def test_convert_refuses_what_would_lose_something(value, annotation):
    with pytest.raises(ValueError):
        convert(value, annotation)


def example(*, size: int, rate: float = 0.1, mode: Literal["a", "b"] = "a", place: list[int] | None = None):
    """An example of options."""


def test_check_options_resolves_defaults_and_dashes():
    assert check_options(example, {"size": "3", "mode": "b"}, "example") == (
        {"size": 3, "rate": 0.1, "mode": "b", "place": None},
        [],
    )

    def dashed(*, probe_train: int = 1): ...

    assert check_options(dashed, {"probe-train": 5}, "x") == ({"probe_train": 5}, [])


def test_check_options_names_every_fault():
    _, faults = check_options(example, {"rat": 1, "mode": "c", "place": "x", "info": 1}, "example")
    text = "\n".join(faults)
    assert len(faults) == 5
    for part in (
        "unknown option 'rat', did you mean 'rate'?",
        "mode must be one of a, b, got 'c'",
        "place must be a list, each item an integer or none, got 'x'",
        "unknown option 'info'",
        "option size is missing",
    ):
        assert part in text


def test_words():
    assert describe_type(float) == "a number" and describe_type(list[int]) == "a list, each item an integer"
    assert did_you_mean("zzzz", ["b", "a"]) == "known: a, b" and did_you_mean("x", []) == "none are known"


def test_names_and_summaries():
    assert {"multidigits", "randbit"} <= set(catalog.names("generators.datasets"))
    assert catalog.summary("generators.datasets", "randbit").startswith("RandBit")
    assert catalog.load_class("generators.datasets", "multidigits", Dataset).name == "multidigits"
    with pytest.raises(UserError, match="unknown dataset 'randbot': did you mean 'randbit'"):
        catalog.dataset("randbot", {})
    with pytest.raises(UserError, match="expected a function named randbit"):
        catalog.load_function("generators.datasets", "randbit")


@pytest.mark.parametrize("name", ["", "__init__", "../datasets/randbit", "generators.datasets.randbit", "randbit.pyc"])
def test_odd_names_are_unknown(name):
    with pytest.raises(UserError, match="unknown dataset"):
        catalog.dataset(name, {})


@pytest.mark.parametrize("workers", [1, 2])
def test_a_users_dataset_in_one_file(tmp_path, workers, monkeypatch):
    write_toy(tmp_path / "user")
    monkeypatch.chdir(tmp_path)
    path = "user/toy.py"  # relative, as typed
    found = build(catalog.dataset(path, {"train": "21"}), "out", workers=workers, shard_size=10, reference=path)
    assert found.dataset == "toy" and found.options == {"noise": None, "test": 9, "train": 21}
    assert verify("out") == found
    assert catalog.file_digest("generators.datasets", path) == catalog.file_digest(
        "generators.datasets", str(tmp_path / path)
    )


def test_a_mended_file_is_read_anew(tmp_path, monkeypatch):
    """Even where size and time of the two files agree, which is all that Python's own cache looks at."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    for recipe in ("toy", "new"):
        path = write_toy(tmp_path, ('recipe = "toy"', f'recipe = "{recipe}"'))
        os.utime(path, (1_700_000_000, 1_700_000_000))
        assert catalog.dataset(path, {}).recipe == recipe
    assert [file.name for file in tmp_path.iterdir()] == ["toy.py"]


def test_a_build_takes_the_mended_file_too(tmp_path):
    digests = set()
    for number, white in enumerate((255, 254)):
        path = write_toy(tmp_path, ("= 255", f"= {white}"))
        digests.add(build(catalog.dataset(path, {}), tmp_path / f"out{number}", reference=path).content_digest)
        verify(tmp_path / f"out{number}")
    assert len(digests) == 2


@pytest.mark.parametrize(
    "text, message",
    [
        ("import no_such_library", "cannot be imported .ModuleNotFoundError.*no_such_library"),
        ("def broken(:", "cannot be imported .SyntaxError"),
        ("1 / 0", "cannot be imported .ZeroDivisionError"),
        ("raise SystemExit(0)", "cannot be imported .SystemExit"),
        ("x = 1", "expected exactly one subclass of Dataset in the file, found 0"),
        ("from generators.datasets.randbit import RandBit", "found 0"),
        ("from generators.dataset import Dataset\nclass A(Dataset): ...\nclass B(Dataset): ...", "found 2"),
    ],
)
def test_files_without_a_dataset(tmp_path, text, message):
    (tmp_path / "mine.py").write_text(text)
    before = set(sys.modules)  # other tests' own files are among them
    for _ in range(2):  # a failed import leaves nothing behind
        with pytest.raises(UserError, match=f"mine.py: .*{message}"):
            catalog.dataset(str(tmp_path / "mine.py"), {})
        if "cannot be imported" in message:
            assert not [name for name in sys.modules.keys() - before if name.startswith("suppression_bench_user")]


def test_missing_file(tmp_path):
    for path in (tmp_path / "none.py", tmp_path):
        with pytest.raises(UserError, match=r"no such file.*multidigits"):
            catalog.dataset(f"{path}" if path.suffix else f"{path}/.py", {})


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":2}',
        '{"a":{"b":1,"b":1}}',
        "NaN",
        "[Infinity]",
        "[-Infinity]",
        "1.5",
        "[1e3]",
        "",
        "{",
        "[1] x",
        b"\xff\xfe\x00",
        "[" * 100_000,
        "9" * 5000,
        "{'a':1}",
        "[1,]",
    ],
    ids=lambda text: str(text)[:12],
)
def test_strict_json_refuses(text):
    with pytest.raises(UserError, match="name: not valid JSON"):
        files.loads_json(text, "name")


def test_strict_json_there_and_back():
    value = {"b": [1, -2, None, True], "a": {"ü": "\u2028"}}
    text = files.dumps_json(value)
    assert text == '{"a":{"\\u00fc":"\\u2028"},"b":[1,-2,null,true]}'
    assert files.loads_json(text, "x") == value and files.loads_json("[0.5]", "x", floats=True) == [0.5]
    for bad in (float("nan"), float("inf")):
        with pytest.raises(ValueError):
            files.dumps_json([bad])

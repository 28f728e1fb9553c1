"""YAML as people write it for this project: plain values only, and no key twice."""


def loads(text: str):
    """The value of a YAML text; where YAML would take the last of two equal keys without a word, this refuses.

    Arguments:
        text: the YAML text.

    Raises:
        ValueError: no YAML, a tag of Python's, a date that does not exist, nesting without end, or a key that stands twice.

    >>> loads("{a: 1, b: [x, 2]}")
    {'a': 1, 'b': ['x', 2]}
    """
    import yaml

    try:
        _refuse_twins(yaml.compose(text, Loader=yaml.SafeLoader))
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(str(error)) from None


def _refuse_twins(node) -> None:
    import yaml

    if isinstance(node, yaml.MappingNode):
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        twins = sorted({key for key in keys if keys.count(key) > 1})
        if twins:
            raise ValueError(f"the key {twins[0]!r} stands twice, at line {node.start_mark.line + 1} and below")
    for child in getattr(node, "value", []) if isinstance(node, yaml.CollectionNode) else []:
        for part in child if isinstance(child, tuple) else (child,):
            _refuse_twins(part)

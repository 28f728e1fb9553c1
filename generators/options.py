"""Options of plug-ins, under the name that other rooms still use."""

from generators.catalog import check_options, convert, describe_type, did_you_mean, parameters

__all__ = ["check_options", "convert", "describe_type", "did_you_mean", "parameters"]

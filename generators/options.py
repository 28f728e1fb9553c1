"""Options of plug-ins, under the name that other rooms still use."""

from generators.catalog import check_options, check_parameters, convert, describe_type, did_you_mean, parameters

__all__ = ["check_options", "check_parameters", "convert", "describe_type", "did_you_mean", "parameters"]

"""The version of the library and of the provider: written here, once."""

VERSION = "0.1.0"

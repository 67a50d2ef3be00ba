"""The fixtures of traces, for all tests of this folder."""

from tests.support.trace_files import write as write

"""How to make an installed engine tell every flag that it takes: a program for its own python, as text.

Each prints one JSON list of option strings as its last line. Printing --help would not do: it hides flags.
Nothing here runs them: `node.flags` does.
"""

_TELL = "print(); print(json.dumps([name for action in parser._actions for name in action.option_strings]))"

PROGRAMS = {
    "sglang": f"""
import argparse, json
from sglang.srt.server_args import ServerArgs
parser = argparse.ArgumentParser()
ServerArgs.add_cli_args(parser)
{_TELL}
""",
    # The parser's class moved between versions; its own abbreviations and underscores need the engine's own class.
    "vllm": f"""
import json
try:
    from vllm.utils.argparse_utils import FlexibleArgumentParser
except ImportError:
    from vllm.utils import FlexibleArgumentParser
from vllm.entrypoints.openai.cli_args import make_arg_parser
parser = make_arg_parser(FlexibleArgumentParser())
{_TELL}
""",
}
"""By the engine's name, which is also the name of its package."""

"""What TensorBoard itself reads of a folder of event files, by each of its three readers. Run by an interpreter that has it:

    tensorboard_readers.py FOLDER     prints {reader: {tag: [[step, value], …]}}, of every point that the reader shows
"""

import json
import sys
import time

from tensorboard import context
from tensorboard.backend.event_processing import data_provider, event_accumulator, plugin_event_multiplexer
from tensorboard.data import provider, server_ingester
from tensorboard.util import grpc_util

ALL = 0  # of a size: no point is left out
DEADLINE = 120.0  # seconds for a reader of its own process to have read the files
MANY = 1_000_000


def accumulated(folder):
    """EventAccumulator, which scripts use."""
    reader = event_accumulator.EventAccumulator(folder, size_guidance={event_accumulator.SCALARS: ALL})
    reader.Reload()
    return {tag: [[point.step, point.value] for point in reader.Scalars(tag)] for tag in reader.Tags()["scalars"]}


def shown_by(pages_data):
    """All that a page can be given."""
    ctx = context.RequestContext()
    read = pages_data.read_scalars(ctx, experiment_id="", plugin_name="scalars", downsample=MANY,
                                   run_tag_filter=provider.RunTagFilter())
    return {tag: [[point.step, point.value] for point in points] for tags in read.values() for tag, points in tags.items()}


def slow_page(folder):
    """The page of --load_fast=false."""
    reader = plugin_event_multiplexer.EventMultiplexer(tensor_size_guidance={"scalars": ALL})
    reader.AddRunsFromDirectory(folder)
    reader.Reload()
    return shown_by(data_provider.MultiplexerDataProvider(reader, folder))


def fast_page(folder, last_steps):
    """The default page: a program of its own reads the files. `last_steps`, by tag: it has read them once it shows these."""
    ingester = server_ingester.SubprocessServerDataIngester(
        server_ingester.get_server_binary(), folder, reload_interval=0, channel_creds_type=grpc_util.ChannelCredsType.LOCAL,
        samples_per_plugin={"scalars": ALL})
    ingester.start()
    began = time.monotonic()
    while True:
        shown = shown_by(ingester.data_provider)
        if {tag: points[-1][0] for tag, points in shown.items() if points} == last_steps or time.monotonic() - began > DEADLINE:
            return shown


def main():
    folder = sys.argv[1]
    of_accumulator = accumulated(folder)
    last_steps = {tag: points[-1][0] for tag, points in of_accumulator.items()}
    json.dump({"EventAccumulator": of_accumulator, "page": fast_page(folder, last_steps), "page without the fast loader": slow_page(folder)},
              sys.stdout)


if __name__ == "__main__":
    main()

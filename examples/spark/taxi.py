"""From a Spark SQL query to a trained model: does a taxi ride end with a generous tip?

    spark-submit --master local[2] taxi.py [--rows N] [--workers N] [key.path=value …]

The rides are made, so that nothing has to be fetched; a table of your own takes their place.
"""

import argparse
import pathlib

import torch
from pyspark.sql import SparkSession
from torch import nn
from torch.nn import functional

import paceline.spark

RIDES = """
    SELECT id, hour, kilometres, 2.5 + 1.7 * kilometres AS fare, card,
           card AND tip_mood + 0.04 * kilometres - 0.1 * cos(hour * pi() / 12) > 0.75 AS generous
    FROM (SELECT id, floor(24 * rand(1)) AS hour, -6 * ln(1 - rand(2)) AS kilometres, rand(3) < 0.7 AS card, rand(4) AS tip_mood
          FROM range({rows}))
"""
FEATURES = """
    SELECT array(sin(hour * pi() / 12), cos(hour * pi() / 12), ln(1 + kilometres), fare / 20, int(card)) AS x, int(generous) AS y
    FROM rides WHERE fare < 60 AND id % 10 {which} 0
"""


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))


def fit(worker):
    """On each worker, in an executor."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with worker.attach(model, optimizer) as run:
        for batch in worker.batches():  # until the run is over
            scores = model(batch["x"])
            loss = functional.cross_entropy(scores, batch["y"])
            optimizer.zero_grad()
            loss.backward()
            run.report(loss, correct=(scores.argmax(1) == batch["y"]).sum())
            optimizer.step()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("overrides", nargs="*", metavar="key.path=value")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_intermixed_args()
    with SparkSession.builder.appName("taxi").getOrCreate() as spark:
        spark.sql(RIDES.format(rows=given.rows)).createOrReplaceTempView("rides")
        result = paceline.spark.train(spark.sql(FEATURES.format(which="<>")), fit, str(pathlib.Path(__file__).parent / "taxi.yaml"),
                                      num_workers=given.workers, overrides=given.overrides, existing="replace")
        test = spark.sql(FEATURES.format(which="=")).collect()
    model = network()
    model.load_state_dict(result.tensors("torch"))
    x, y = torch.tensor([row.x for row in test]), torch.tensor([row.y for row in test])
    right = (model(x).argmax(1) == y).float().mean()
    print(f"rows of the workers: {result.rows}; iterations: {result.summary['iterations']}; accuracy on {len(y)} rides: {right:.4f} "
          f"(always the commoner answer: {max(y.float().mean(), 1 - y.float().mean()):.4f})")


if __name__ == "__main__":
    main()
